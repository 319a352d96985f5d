import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { endOnInterrupt, exitAfter, unlessInterrupted } from './interrupt.ts'
import { loadAverage, readMachine, versions } from './machine.ts'
import { htmlPage } from './report/html.ts'
import { describeGoals, describeReport } from './report/page.ts'
import { compactJson, makeReport, type Report } from './report/report.ts'
import { keepReport, writePage } from './report/results-folder.ts'
import type { Options, Scenario } from './scenario.ts'
import {
  allSkipped,
  beyondCache,
  newRows,
  overwriting,
  staging,
  upserting,
  wideRows,
} from './scenarios/comparisons.ts'
import { ftpUploads } from './scenarios/ftp-uploads.ts'
import { manySmall } from './scenarios/many-small.ts'
import { pauseAndKill } from './scenarios/pause-and-kill.ts'
import { requests } from './scenarios/requests.ts'
import { smallBesideGiant } from './scenarios/small-beside-giant.ts'
import { uploadDoors } from './scenarios/upload-doors.ts'

/** Those of the first table of the results. */
const headlines: Scenario[] = [
  ...[
    newRows,
    wideRows,
    upserting,
    overwriting,
    allSkipped,
    beyondCache,
    pauseAndKill,
    smallBesideGiant,
    requests,
  ],
]
/** In the order in which they are listed and shown. */
const scenarios = [...headlines, manySmall, staging, ftpUploads, uploadDoors]
const names = scenarios.map((one) => one.name)

const usage = `npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE] [--html FILE] [--quick] [--tree OTHER]
                      requests also: [--subscribers N[,N ...]] [--seconds N] [--only WORD]
npm run bench -- table [--quick]
                      runs those of the first table of bench/RESULTS.md, and writes that page; about two hours
npm run bench -- all [--quick] [--only NAME,NAME]
                      the same with all or some; with --quick the page is bench/quick/RESULTS.md; other options are
                      passed on
npm run bench -- results [--quick]
                      writes the page again, from RESULTS.json
`
const given = process.argv.slice(2)
const { values: options, positionals } = parse(given)
const [name] = positionals
const scenario = scenarios.find((candidate) => candidate.name === name)
const isKnown = scenario !== undefined || ['all', 'table', 'results'].includes(name ?? '')
if (!isKnown || options.help) {
  console.log(usage)
  for (const one of scenario === undefined ? scenarios : [scenario])
    console.log(`  ${one.name.padEnd(18)} ${one.summary}`)
  if (name !== undefined && !isKnown) console.error(`\nthere is no benchmark ${name}`)
  process.exit(name === undefined || isKnown ? 0 : 2)
}
if (scenario === undefined && (options.json !== undefined || options.html !== undefined))
  refuse(`--json and --html are options of one benchmark; ${name} writes its files into bench/results`)
await exitAfter('rollcall-bench-', (folder) =>
  scenario === undefined ? runMany(folder) : runOne(scenario, folder),
)

function parse(args: string[]) {
  const text = { type: 'string' } as const
  const sizes = { rows: text, rounds: text, seed: text, subscribers: text, seconds: text, tree: text }
  const flags = { quick: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } } as const
  const types = { ...sizes, only: text, json: text, html: text, ...flags }
  return parseArgs({ args, allowPositionals: true, options: types })
}

async function runOne({ name, summary, quick, run }: Scenario, folder: string): Promise<number> {
  // The last of two equal options wins: one on the command line over one of --quick.
  const { values } = parse(options.quick ? [...quick, ...given] : given)
  const transcript: string[] = []
  const say = (text: string) => {
    transcript.push(text)
    console.log(text)
  }
  const size = readSize(values)
  const { rows, rounds, seed } = size
  const machine = readMachine()
  const startedAt = performance.now()
  const asked = pick(values, ['subscribers', 'seconds', 'only', 'tree'])
  const work = { ...(rows === null ? {} : { rows }), rounds, seed, ...asked }
  const particulars = { benchmark: name, summary, startedAt, work, versions: versions() }
  console.log(`${name}: ${summary}`)
  const outcome = await run({ ...size, folder, say })
  machine.load_average_after = loadAverage()
  const report = makeReport({ ...particulars, machine, transcript }, outcome)
  console.log(['', ...describeReport(report), ...describeGoals(report)].join('\n'))
  if (values.json !== undefined) await writeFile(values.json, compactJson(report))
  if (values.html !== undefined) await writeFile(values.html, htmlPage(report))
  return report.is_right ? 0 : 1
}

/**
 * Runs benchmarks in processes of their own, so that none finds another's memory, and writes the page after each. One
 * that fails leaves its earlier result.
 */
async function runMany(folder: string): Promise<number> {
  const out = path.join(import.meta.dirname, options.quick ? 'quick' : '')
  const list = name === 'table' ? headlines : scenarios
  const wanted = name === 'results' ? [] : (options.only?.split(',') ?? list.map((one) => one.name))
  const unknown = wanted.find((one) => !names.includes(one))
  if (unknown !== undefined) throw new Error(`there is no benchmark ${unknown}`)
  const sizes = ['rows', 'rounds', 'seed', 'subscribers', 'seconds']
  const passedOn = Object.entries(pick(options, sizes)).flatMap(([option, value]) => [`--${option}`, value])
  const failed: string[] = []
  for (const { name, quick, full = [] } of scenarios.filter((one) => wanted.includes(one.name))) {
    const size = options.quick ? quick : full
    const json = path.join(folder, `${name}.json`)
    if (await runInProcess([name, ...size, ...passedOn, '--json', json]))
      await keepReport(out, names, JSON.parse(await readFile(json, 'utf8')) as Report)
    else failed.push(name)
    console.log('')
  }
  console.log(`the results are in ${path.relative('', await writePage(out, names))}`)
  if (failed.length > 0) console.error(`failed, their earlier results stay: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

async function runInProcess(args: string[]): Promise<boolean> {
  const child = spawn(process.execPath, [import.meta.filename, ...args], { stdio: 'inherit' })
  const ended = once(child, 'exit') as Promise<[code: number | null]>
  const unregister = endOnInterrupt(() => {
    child.kill('SIGTERM')
    return ended
  })
  const [code] = await ended
  await unlessInterrupted()
  unregister()
  return code === 0
}

function readSize(values: ReturnType<typeof parse>['values']): Omit<Options, 'folder' | 'say'> {
  const { rows, rounds = '3', seed = '1', subscribers = '200000', seconds = '5' } = values
  const [first = 0, ...more] = subscribers.split(',').map((text) => wholeNumber('--subscribers', text))
  return {
    rows: rows === undefined ? null : wholeNumber('--rows', rows),
    rounds: wholeNumber('--rounds', rounds),
    seed: wholeNumber('--seed', seed),
    subscribers: [first, ...more],
    seconds: wholeNumber('--seconds', seconds),
    only: values.only ?? '',
    tree: values.tree === undefined ? null : path.resolve(values.tree),
  }
}

/** Those of the named options that are there. */
function pick(values: object, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter(([option]) => names.includes(option)))
}

function wholeNumber(option: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  return refuse(`${option} must be a positive integer, not ${text}`)
}

function refuse(sentence: string): never {
  console.error(sentence)
  process.exit(2)
}
