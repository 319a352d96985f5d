import { mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { onServer } from '../compare.ts'
import { exitAfter, removeFolder } from '../interrupt.ts'
import { describeMachine, loadAverage, versions, type Machine } from '../machine.ts'
import { describe } from '../report/text.ts'
import {
  betterOf,
  isSameKind,
  judge,
  lowestParts,
  lowestOf,
  mediansOf,
  ratiosOf,
  recordsFor,
  withRecord,
  type LowestParts,
  type Ratios,
  type Recorded,
  type Verdict,
} from './judge.ts'
import { becomesQuiet } from './quiet.ts'
import { runRounds } from './run-rounds.ts'

/*
 * Fails when a row costs more CPU time, or takes much longer, than it did: against what it costs a peer in the same
 * minute, compared with what was recorded. No figure by itself is of use on a machine that others load.
 */

/** Only what is about to fail takes so long. */
const maxRepeats = 2

/** The medians of so many passes are recorded: a single one may have met a neighbour that made one of the two dearer. */
const recordedPasses = 3

const recordedFile = new URL('./recorded.json', import.meta.url)

const { values: given } = parseArgs({
  options: {
    /** Write down what is measured instead of judging it. */
    record: { type: 'boolean', default: false },
    rows: { type: 'string', default: '60000' },
    rounds: { type: 'string', default: '3' },
    /** Where the costs of each round go, to look at. */
    json: { type: 'string' },
  },
})
const [rows, rounds] = [Number(given.rows), Number(given.rounds)]

await exitAfter('rollcall-guard-', (folder) => (given.record ? record(folder) : guard(folder)))

async function record(folder: string): Promise<number> {
  const machine = describeMachine()
  const all = await readRecorded()
  const passes: Ratios[] = []
  while (passes.length < recordedPasses) passes.push(await measureRatios(folder))
  const medians = Object.entries(mediansOf(passes)).map(([name, ratio]) => [
    name,
    Number(ratio.toPrecision(4)),
  ])
  const ratios = Object.fromEntries(medians) as Ratios
  machine.load_average_after = loadAverage()
  const recorded: Recorded = {
    at: new Date().toISOString(),
    machine,
    versions: versions(),
    rows,
    rounds,
    ratios,
  }
  const part = new URL('./recorded.json.part', import.meta.url)
  await writeFile(part, `${JSON.stringify(withRecord(all, recorded), null, 2)}\n`)
  await rename(part, recordedFile)
  const before = recordsFor(machine, all)
  if (before.length === 0) return 0
  console.log(`against what was recorded ${inPlaces(before)}:`)
  print(judge(lowestOf(before.map((one) => one.ratios)), ratios, partsFor(machine, before)))
  return 0
}

async function guard(folder: string): Promise<number> {
  const here = describeMachine()
  const records = recordsFor(here, await readRecorded())
  if (records.length === 0)
    throw new Error(`${fileURLToPath(recordedFile)} holds no record: npm run guard -- --record writes one`)
  const other = records.find((one) => one.rows !== rows)
  if (other !== undefined) {
    console.error(
      `--rows ${rows}: the recorded ratios are those of ${other.rows} rows, and an import has costs that aren't a row's. Leave it out, or add --record.`,
    )
    return 2
  }
  const parts = partsFor(here, records)
  const recorded = lowestOf(records.map(({ ratios }) => ratios))
  if (parts !== lowestParts.here)
    console.log(
      `the ratios were recorded ${inPlaces(records)}, and this is ${describe(here)}, on which a row may cost otherwise: what counts here is the lowest of all records, and ${inWords(parts)} fail; npm run guard -- --record writes down those of this machine`,
    )
  if (!(await becomesQuiet())) {
    console.log(
      `the guard measures nothing and judges nothing here: others use more than half of this machine's CPU time (load average ${loadAverage().toFixed(1)}, ${describe(describeMachine())}), so that a fall couldn't be told from noise`,
    )
    return 0
  }
  let ratios = await measureRatios(folder)
  let verdicts = judge(recorded, ratios, parts)
  print(verdicts)
  for (let again = 0; again < maxRepeats && verdicts.some(({ hasFallen }) => hasFallen); again += 1) {
    console.log('one is below the least that it must reach; once more, to see whether it was the machine')
    ratios = betterOf(ratios, await measureRatios(folder))
    verdicts = judge(recorded, ratios, parts)
    print(verdicts)
  }
  const fallen = verdicts.filter(({ hasFallen }) => hasFallen)
  if (fallen.length === 0) return 0
  console.error(
    `${fallen.map(({ name }) => name).join('; ')}: a row costs more, or takes longer, than it did. See with npm run bench what became slower; where it is meant to be, npm run guard -- --record writes down the new ratios. Recorded ${inPlaces(records)}, this is ${describe(describeMachine())}.`,
  )
  return 1
}

/** One record for each kind of machine: what a row costs a peer in terms of ours differs by as much as a half. */
async function readRecorded(): Promise<Recorded[]> {
  return JSON.parse(await readFile(recordedFile, 'utf8')) as Recorded[]
}

function partsFor(machine: Machine, records: Recorded[]): LowestParts {
  return records.some((one) => isSameKind(one.machine, machine)) ? lowestParts.here : lowestParts.elsewhere
}

function inPlaces(records: Recorded[]): string {
  return records
    .map(({ at, machine, versions: of }) => `at ${at} on ${describe(machine)}, of ${of['rollcall']}`)
    .join(' and ')
}

async function measureRatios(folder: string): Promise<Ratios> {
  const say = () => undefined
  const scratch = await mkdtemp(path.join(folder, 'run-'))
  const server = { rows, seed: 1, cacheMB: 1_024, folder: scratch, say }
  const measured = await onServer(server, (context) => runRounds(context, rounds))
  if (given.json !== undefined) await writeFile(given.json, JSON.stringify(measured))
  await removeFolder(scratch)
  return ratiosOf(measured)
}

function print(verdicts: Verdict[]): void {
  console.log(
    `what a row costs csv-parse with bulkWrite, in terms of ours (load average ${loadAverage().toFixed(1)})`,
  )
  for (const { name, recorded, measured, least, hasFallen } of verdicts)
    console.log(
      `${name.padEnd(24)}${measured.toFixed(2).padStart(8)}   recorded ${recorded.toFixed(2)}, at least ${least.toFixed(2)}${hasFallen ? '   FELL' : ''}`,
    )
}

function inWords({ cpu, elapsed }: LowestParts): string {
  return `CPU time below ${cpu} and time below ${elapsed} of what was recorded`
}
