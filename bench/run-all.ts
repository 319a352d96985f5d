import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { benchmarks } from './benchmarks.ts'
import { endOnInterrupt, unlessInterrupted } from './interrupt.ts'
import { ResultsFolder } from './report/results-folder.ts'
import type { Comparison, Study } from './scenario.ts'

export interface RunAllOptions {
  /** Parts of names; null for all. */
  only: string[] | null
  isQuick: boolean
  /** Passed on: rounds, seed, and where they are given rows and the like. */
  args: string[]
  /** Where `RESULTS.md` and `results/` go. */
  out: string
  /** Scratch folder, removed at the end. */
  folder: string
}

/** Where the page of a quick run goes: full results aren't replaced by it. */
export const quickFolder = path.join(import.meta.dirname, 'quick')

/** Enough to see what it is about, in about a minute a benchmark; of the engine's start there is a share in each row. */
const quickRows = 50_000

/**
 * Runs benchmarks one after the other, each in a process of its own, so that none finds another one's memory, and makes
 * the page of results anew after each. One that fails leaves its earlier result; resolves to the names of those.
 */
export async function runAll({ only, isQuick, args, out, folder }: RunAllOptions): Promise<string[]> {
  const results = new ResultsFolder(
    out,
    benchmarks.map(({ name }) => name),
  )
  const failed: string[] = []
  const leftOut: string[] = []
  for (const benchmark of benchmarks) {
    const { name } = benchmark
    if (only !== null && !only.includes(name)) continue
    const size = isQuick ? quickArgs(benchmark) : 'run' in benchmark ? (benchmark.full ?? []) : []
    if (size === null) {
      leftOut.push(name)
      continue
    }
    const json = path.join(folder, `${name}.json`)
    // What is given by hand comes last, and so before what quick means.
    if (await runOne([name, ...size, ...args, '--json', json])) {
      await results.keep(name, await readFile(json, 'utf8'))
      await results.writePage()
    } else failed.push(name)
    console.log('')
  }
  if (leftOut.length > 0) console.log(`left out, they can't be quick: ${leftOut.join(', ')}`)
  console.log(`the results are in ${path.relative('', await results.writePage())}`)
  return failed
}

/** Null for one that can't be small. */
export function quickArgs(benchmark: Comparison | Study): string[] | null {
  if ('run' in benchmark) return benchmark.quick ?? null
  if (benchmark.quick === false) return null
  return ['--rows', String(Math.min(benchmark.defaultRows, quickRows))]
}

async function runOne(args: string[]): Promise<boolean> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./run.ts', import.meta.url)), ...args], {
    stdio: 'inherit',
  })
  const ended = new Promise<boolean>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code === 0))
  })
  const forget = endOnInterrupt(() => {
    child.kill('SIGTERM')
    return ended
  })
  const isRight = await ended
  await unlessInterrupted()
  forget()
  return isRight
}
