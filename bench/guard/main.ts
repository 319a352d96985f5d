import { mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { exitAfter, removeFolder } from '../interrupt.ts'
import { loadAverage, readMachine, versions, type Machine } from '../machine.ts'
import { onServer } from '../mongodb-server.ts'
import { describeMachine } from '../report/text.ts'
import { spread } from '../statistics.ts'
import {
  combineRatios,
  computeRatios,
  isSameKind,
  judge,
  minShares,
  recordsFor,
  withRecord,
  type Ratios,
  type RecordedRatios,
} from './judge.ts'
import { runRounds } from './run-rounds.ts'

/*
 * Fails when a row costs more CPU time, or takes much longer, than when it was recorded. On a machine that others use no
 * number is of use by itself, so costs are compared with those of a peer in the same minutes.
 */

/** At most this many repetitions of a measurement that would fail. */
const maxRepeats = 2

/** A single pass may have met a neighbour, so the medians of several are recorded. */
const recordedPasses = 3

/** Some costs of an import don't depend on its rows, so another number needs new records. */
const rows = 60_000
const rounds = 3

const recordedFile = path.join(import.meta.dirname, 'recorded.json')

const { values: options } = parseArgs({
  options: {
    /** Writes down what is measured instead of judging it. */
    record: { type: 'boolean', default: false },
  },
})

await exitAfter('rollcall-guard-', (folder) => (options.record ? record(folder) : guard(folder)))

async function record(folder: string): Promise<number> {
  const machine = readMachine()
  const all = await readRecords()
  const passes: Ratios[] = []
  while (passes.length < recordedPasses) passes.push(await measureRatios(folder))
  const ratios = combineRatios(passes, (...values) => spread(values).median)
  machine.load_average_after = loadAverage()
  const at = new Date().toISOString()
  const recorded = withRecord(all, { at, machine, versions: versions(), rows, rounds, ratios })
  const round = (_: string, value: unknown) =>
    typeof value === 'number' ? Number(value.toPrecision(4)) : value
  await writeFile(`${recordedFile}.part`, `${JSON.stringify(recorded, round, 2)}\n`)
  await rename(`${recordedFile}.part`, recordedFile)
  console.log(`recorded in ${recordedFile}; git diff shows what it was before`)
  return 0
}

async function guard(folder: string): Promise<number> {
  const machine = readMachine()
  const records = recordsFor(machine, await readRecords())
  if (records.length === 0)
    throw new Error(`${recordedFile} has no record: npm run guard -- --record writes one`)
  if (!records.some((one) => isSameKind(one.machine, machine)))
    console.log(
      `the ratios were recorded ${describeRecords(records)}. On this machine (${describeMachine(machine)}) a row may cost otherwise, so CPU time fails below ${minShares.elsewhere.cpu} and time below ${minShares.elsewhere.elapsed} of the lowest record; npm run guard -- --record writes one for it`,
    )
  if (!(await becomesQuiet())) {
    console.log(
      `the guard measures nothing and judges nothing here: others use more than half of this machine's CPU time (load average ${loadAverage().toFixed(1)}, ${describeMachine(machine)}), so a fall couldn't be told from noise`,
    )
    return 0
  }
  const findFallen = judgeBy(machine, records)
  let ratios = await measureRatios(folder)
  let fallen = findFallen(ratios)
  for (let repeat = 0; repeat < maxRepeats && fallen.length > 0; repeat += 1) {
    console.log('a ratio is below its minimum; measuring again, in case the machine was the cause')
    ratios = combineRatios([ratios, await measureRatios(folder)], Math.max)
    fallen = findFallen(ratios)
  }
  if (fallen.length === 0) return 0
  console.error(
    `${fallen.join('; ')}: a row costs more, or takes longer, than it did. See with npm run bench what became slower; where it is meant to be, npm run guard -- --record writes down the new ratios. Recorded ${describeRecords(records)}, this is ${describeMachine(machine)}.`,
  )
  return 1
}

/** Judges by records and prints the verdicts; the result has the names of the ratios that have fallen. */
function judgeBy(machine: Machine, records: RecordedRatios[]) {
  const shares = minShares[records.some((one) => isSameKind(one.machine, machine)) ? 'here' : 'elsewhere']
  const recordedRatios = combineRatios(
    records.map(({ ratios }) => ratios),
    Math.min,
  )
  return (ratios: Ratios): string[] => {
    const verdicts = judge(recordedRatios, ratios, shares)
    console.log(
      `what a row costs csv-parse with bulkWrite, divided by what it costs us (load average ${loadAverage().toFixed(1)})`,
    )
    for (const { name, recorded, measured, min, hasFallen } of verdicts)
      console.log(
        `${name.padEnd(24)}${measured.toFixed(2).padStart(8)}   recorded ${recorded.toFixed(2)}, at least ${min.toFixed(2)}${hasFallen ? '   FELL' : ''}`,
      )
    return verdicts.filter(({ hasFallen }) => hasFallen).map(({ name }) => name)
  }
}

async function readRecords(): Promise<RecordedRatios[]> {
  return JSON.parse(await readFile(recordedFile, 'utf8')) as RecordedRatios[]
}

function describeRecords(records: RecordedRatios[]): string {
  return records
    .map(({ at, machine, versions: of }) => `at ${at} on ${describeMachine(machine)}, of ${of['rollcall']}`)
    .join(' and ')
}

async function measureRatios(folder: string): Promise<Ratios> {
  const say = () => undefined
  const scratch = await mkdtemp(path.join(folder, 'run-'))
  const server = { rows, seed: 1, cacheMB: 1_024, folder: scratch, say }
  const measured = await onServer(server, (bench) => runRounds(bench, rounds))
  await removeFolder(scratch)
  return computeRatios(measured)
}

/**
 * Waits until half of the CPU time is unused, for half a minute at most. The load average isn't asked, because it covers
 * the last minutes. Time that a hypervisor takes counts as used.
 */
async function becomesQuiet(): Promise<boolean> {
  for (let i = 0; i < 10; i += 1) {
    const [before, startedAt] = [idleMs(), performance.now()]
    await sleep(3_000)
    const idleShare = (idleMs() - before) / ((performance.now() - startedAt) * cpus().length)
    if (idleShare >= 0.5) return true
  }
  return false
}

function idleMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0)
}
