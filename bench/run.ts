import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { exitAfter } from './interrupt.ts'
import { loadAverage, readMachine, versions } from './machine.ts'
import { htmlPage } from './report/html.ts'
import { compactJson, makeReport } from './report/report.ts'
import { closingLines, describeMachine } from './report/text.ts'
import { runAll } from './run-all.ts'
import type { Scenario } from './scenario.ts'
import { scenarios } from './scenarios/all.ts'

const usage = `npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE] [--html FILE] [--quick] [--quiet]
                      requests also: [--subscribers N[,N ...]] [--connections N] [--seconds N] [--only WORD] [--data FOLDER]
npm run bench -- all [--quick] [--only NAME,NAME] [--out FOLDER]
                      runs all, and writes the page bench/RESULTS.md (bench/quick/RESULTS.md with --quick);
                      other options are passed on
npm run bench -- results [--quick] [--out FOLDER]
                      writes the page again, from RESULTS.json
`
const sizes = {
  rows: { type: 'string' },
  rounds: { type: 'string' },
  seed: { type: 'string' },
  subscribers: { type: 'string' },
  connections: { type: 'string' },
  seconds: { type: 'string' },
} as const
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    ...sizes,
    only: { type: 'string' },
    data: { type: 'string' },
    json: { type: 'string' },
    html: { type: 'string' },
    out: { type: 'string' },
    quick: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
const [name] = positionals
const scenario = scenarios.find((candidate) => candidate.name === name)
const isKnown = scenario !== undefined || name === 'all' || name === 'results'
if (!isKnown || options.help) {
  console.log(usage)
  for (const one of scenario === undefined ? scenarios : [scenario])
    console.log(`  ${one.name.padEnd(18)} ${one.summary}`)
  if (name !== undefined && !isKnown) console.error(`\nthere is no benchmark ${name}`)
  process.exit(name === undefined || isKnown ? 0 : 2)
}
if (scenario === undefined && (options.json !== undefined || options.html !== undefined))
  refuse(`--json and --html are options of one benchmark; ${name} writes its files into --out`)
await exitAfter('rollcall-bench-', (folder) =>
  scenario === undefined ? runMany(folder) : runOne(scenario, folder),
)

async function runOne({ name, summary, quick, run }: Scenario, folder: string): Promise<number> {
  if (options.quick && quick === null) refuse(`${name} can't be quick; --rows and --rounds make it smaller`)
  const { only, data } = options
  // Options on the command line win over those of --quick.
  const quickSizes = parseArgs({ args: (options.quick ? quick : null) ?? [], options: sizes }).values
  const { rows, ...size } = { ...quickSizes, ...options }
  const { rounds = '3', seed = '1', subscribers = '200000', connections = '16', seconds = '5' } = size
  const [first = '', ...more] = subscribers.split(',')
  const transcript: string[] = []
  const say = (text: string) => {
    transcript.push(text)
    if (!options.quiet) console.log(text)
  }
  const machine = readMachine()
  const work = {
    ...(rows === undefined ? {} : { rows: wholeNumber('--rows', rows) }),
    rounds: wholeNumber('--rounds', rounds),
    seed: wholeNumber('--seed', seed),
    ...Object.fromEntries(
      (['subscribers', 'connections', 'seconds', 'only'] as const).flatMap((option) => {
        const value = { ...size, only }[option]
        return value === undefined ? [] : [[option, value]]
      }),
    ),
  }
  const particulars = { benchmark: name, summary, startedAt: performance.now(), work, versions: versions() }
  say(`${name}: ${summary}`)
  say(`${describeMachine(machine)}, load average ${machine.load_average_before.toFixed(1)}`)
  const outcome = await run({
    rows: rows === undefined ? null : wholeNumber('--rows', rows),
    rounds: work.rounds,
    seed: work.seed,
    subscribers: [
      wholeNumber('--subscribers', first),
      ...more.map((text) => wholeNumber('--subscribers', text)),
    ],
    connections: wholeNumber('--connections', connections),
    seconds: wholeNumber('--seconds', seconds),
    only: only ?? null,
    data: data === undefined ? null : path.resolve(data),
    folder,
    say,
  })
  machine.load_average_after = loadAverage()
  const report = makeReport({ ...particulars, machine, transcript }, outcome)
  for (const line of closingLines(report)) say(line)
  if (options.json !== undefined) await writeFile(options.json, compactJson(report))
  if (options.html !== undefined) await writeFile(options.html, htmlPage(report))
  return report.is_right ? 0 : 1
}

async function runMany(folder: string): Promise<number> {
  const usual = options.quick ? path.join(import.meta.dirname, 'quick') : import.meta.dirname
  const out = options.out === undefined ? usual : path.resolve(options.out)
  const only = name === 'results' ? [] : (options.only?.split(',') ?? null)
  const unknown = only?.find((wanted) => scenarios.every((known) => known.name !== wanted))
  if (unknown !== undefined) throw new Error(`there is no benchmark ${unknown}`)
  const passedOn = ['rows', 'rounds', 'seed', 'subscribers', 'connections', 'seconds', 'data'] as const
  const args = passedOn.flatMap((option) =>
    options[option] === undefined ? [] : [`--${option}`, options[option]],
  )
  const failed = await runAll({ only, isQuick: options.quick, args, out, folder })
  if (failed.length > 0) console.error(`failed, their earlier results stay: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

function wholeNumber(option: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  return refuse(`${option} must be a positive integer, not ${text}`)
}

function refuse(sentence: string): never {
  console.error(sentence)
  process.exit(2)
}
