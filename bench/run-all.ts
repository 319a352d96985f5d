import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { endOnInterrupt, unlessInterrupted } from './interrupt.ts'
import type { Report } from './report/report.ts'
import { ResultsFolder } from './report/results-folder.ts'
import { scenarios } from './scenarios/all.ts'

interface RunAllOptions {
  /** Null for all. */
  only: string[] | null
  isQuick: boolean
  /** Passed on to each benchmark. */
  args: string[]
  /** The folder of `RESULTS.md`. */
  out: string
  /** Scratch folder, removed at the end. */
  folder: string
}

/**
 * Runs benchmarks in processes of their own, so that none finds another's memory, and writes the page after each. One
 * that fails leaves its earlier result. Resolves to the names of those that failed.
 */
export async function runAll({ only, isQuick, args, out, folder }: RunAllOptions): Promise<string[]> {
  const results = new ResultsFolder(out, scenarios)
  const failed: string[] = []
  const wanted = scenarios.filter(({ name }) => only?.includes(name) ?? true)
  for (const { name, quick, full = [] } of wanted) {
    const size = isQuick ? quick : full
    if (size === null) {
      console.log(`${name} is left out: a small run of it says nothing\n`)
      continue
    }
    const json = path.join(folder, `${name}.json`)
    // The last of two equal options wins, so the given ones come last.
    if (await runOne([name, ...size, ...args, '--json', json])) {
      await results.keep(JSON.parse(await readFile(json, 'utf8')) as Report)
      await results.writePage()
    } else failed.push(name)
    console.log('')
  }
  console.log(`the results are in ${path.relative('', await results.writePage())}`)
  return failed
}

async function runOne(args: string[]): Promise<boolean> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./run.ts', import.meta.url)), ...args], {
    stdio: 'inherit',
  })
  const ended = new Promise<boolean>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code === 0))
  })
  const unregister = endOnInterrupt(() => {
    child.kill('SIGTERM')
    return ended
  })
  const isRight = await ended
  await unlessInterrupted()
  unregister()
  return isRight
}
