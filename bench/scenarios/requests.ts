import { mkdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { subscriberStatuses } from '../../shared/schemas/subscriber.ts'
import { Cannon } from '../load/cannon.ts'
import { costOf, describePeaks } from '../load/cost.ts'
import { operationsOn, type Operation } from '../load/operations.ts'
import { rowsOfTable, summarizeVolleys, type MeasuredVolley, type OperationResult } from '../load/report.ts'
import { RunningImport, writeImportFiles } from '../load/running-import.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { loadSubscribers, type LoadedSubscribers } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import type { Goal, Study, StudyOptions, Timeline } from '../scenario.ts'

/**
 * How long requests take on an organization with many subscribers, and how long while an import runs into the very list
 * that they read and write. Every connection sends its next request when it has the reply to the last one, so the
 * service is never idle: the figures are those of a full house.
 */
export const requests: Study = {
  name: 'requests',
  summary: 'requests about subscribers by 16 connections, without an import and while one runs',
  quick: ['--subscribers', '20000', '--seconds', '1', '--rounds', '1'],
  full: ['--subscribers', '1000000'],
  async run(options) {
    const folder = options.data ?? options.folder
    await mkdir(folder, { recursive: true })
    return onMeasuredService(folder, (service) => measureAll(service, folder, options))
  },
}

/** Where an import runs, a reply may take so many times as long. */
const patienceDuringImport = 4
const farPageRatio = 1.5
const warmUpSeconds = 1
/** Seldom: a look is a request too, of 1-2 ms. */
const lookEveryMs = 5_000
/** That the goals are set for. */
const usualSubscribers = 5_000_000

async function measureAll(service: MeasuredService, folder: string, options: StudyOptions) {
  const { say, seed, subscribers, connections } = options
  const loaded = await loadSubscribers(service, { subscribers, seed, folder, say })
  say('taking samples, and going through the big list page by page ...')
  const { operations: all, farPage } = await operationsOn(service, loaded, seed)
  const operations = all.filter(({ name }) => name.includes(options.only ?? ''))
  if (operations.length === 0)
    throw new Error(
      `--only ${options.only}: no operation has that in its name; there are ${all.map(({ name }) => name).join('; ')}`,
    )
  const importRows = options.rows ?? Math.min(1_000_000, Math.ceil(subscribers / 5))
  const files = await writeImportFiles(service, loaded, importRows)
  const cannon = new Cannon()
  try {
    const measure = () =>
      costOf(service, 1, () => measureRounds(service, cannon, operations, options), { lookEveryMs })
    say(`\n${connections} connections, no import (load average ${load()})`)
    const { done: quiet, timeline: quietTimeline, cost: quietCost } = await measure()
    for (const row of rowsOfTable(quiet)) say(row)
    say(coresInUse(quietTimeline))
    say(describePeaks(quietCost.peakMemoryMB))

    const running = new RunningImport(service, loaded.lists[0]!.id, files)
    await running.start()
    say(
      `\n${connections} connections, imports of ${importRows.toLocaleString('en')} rows (load average ${load()})`,
    )
    const { done: busy, timeline: busyTimeline, cost: busyCost } = await measure()
    const imported = await running.stop()
    for (const row of rowsOfTable(busy)) say(row)
    say(coresInUse(busyTimeline))
    say(describePeaks(busyCost.peakMemoryMB))
    const importedPerSecond = imported.rows / imported.seconds
    say(
      `the imports did ${Math.round(importedPerSecond).toLocaleString('en')} rows/s (load average ${load()})`,
    )

    const goals = goalsOf(operations, quiet, busy).map(({ what, isMet }) => ({
      what: `${what}${ofFewer(subscribers)}`,
      isMet,
    }))
    say('')
    for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
    const countProblem = await wrongCounts(service, loaded)
    if (countProblem !== null) say(`\nWRONG COUNTS: ${countProblem}`)
    const results = [...quiet.values(), ...busy.values()]
    for (const sentence of results.flatMap(({ wrong }) => wrong)) say(`WRONG REPLY: ${sentence}`)
    return {
      isRight:
        countProblem === null &&
        results.every(({ replies, wrongReplies, errors }) => replies > 0 && wrongReplies + errors === 0),
      result: {
        mongodb: await serverVersion(service.database.client),
        subscribers,
        lists: loaded.lists.length,
        connections,
        far_page: farPage,
        import_rows: importRows,
        import_rows_per_second: importedPerSecond,
        quiet: Object.fromEntries(quiet),
        during_import: Object.fromEntries(busy),
        peak_memory_mb: { quiet: quietCost.peakMemoryMB, during_import: busyCost.peakMemoryMB },
      },
      goals,
      latencies: [...latenciesOf(quiet, ''), ...latenciesOf(busy, ' during an import')],
      timelines: [
        { name: 'no import', rounds: [{ ...quietTimeline, rows: null }] },
        { name: 'during an import', rounds: [{ ...busyTimeline, rows: null }] },
      ],
    }
  } finally {
    cannon.stop()
    for (const file of files) await rm(path.join(service.uploads, file), { force: true })
  }
}

/** Of each process, from the first request to the last. */
const coresInUse = ({ seconds, cpuSeconds }: Timeline): string =>
  `cores in use: ${Object.entries(cpuSeconds)
    .map(([name, used]) => `${name} ${(used.at(-1)! / seconds.at(-1)!).toFixed(2)}`)
    .join(', ')}`

/** Round after round over all operations, so that a slow minute of the machine is nobody's own. */
async function measureRounds(
  { url, authorization, cpuSeconds }: MeasuredService,
  cannon: Cannon,
  operations: Operation[],
  { rounds, seconds, connections, say }: StudyOptions,
): Promise<Map<string, OperationResult>> {
  const volleys = new Map<string, MeasuredVolley[]>(operations.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round += 1) {
    for (const operation of operations) {
      const { name } = operation
      const isWarmUp = round === 0
      const before = await cpuSeconds()
      const volley = await cannon.fire({
        url,
        authorization,
        connections,
        seconds: isWarmUp ? warmUpSeconds : seconds,
        requests: operation.requests(round),
      })
      if (volley.milliseconds.length === 0)
        say(`${name}: no reply came within ${volley.seconds} s; ${volley.errors} errors`)
      const after = await cpuSeconds()
      const cpu = {
        controlPlane: after.controlPlane - before.controlPlane,
        mongodb: after.mongodb - before.mongodb,
      }
      if (!isWarmUp) volleys.get(name)!.push({ ...volley, cpuSeconds: cpu })
    }
  }
  return new Map([...volleys].map(([name, list]) => [name, summarizeVolleys(list)]))
}

function goalsOf(
  operations: Operation[],
  quiet: Map<string, OperationResult>,
  busy: Map<string, OperationResult>,
): Goal[] {
  const goals: Goal[] = []
  for (const { name, goalMs } of operations) {
    if (goalMs === null) continue
    for (const [when, results, most] of [
      ['', quiet, goalMs],
      [' during an import', busy, goalMs * patienceDuringImport],
    ] as const) {
      const p99 = results.get(name)!.p99Ms.median
      goals.push({ what: `${name}${when}: p99 ${p99.toFixed(1)} ms, at most ${most}`, isMet: p99 <= most })
    }
  }
  const pages = operations.map(({ name }) => name).filter((name) => name.startsWith('page '))
  const [firstPage, farPage] = pages
  if (firstPage === undefined || farPage === undefined) return goals
  for (const [when, results] of [
    ['', quiet],
    [' during an import', busy],
  ] as const) {
    const ratio = results.get(farPage)!.medianMs.median / results.get(firstPage)!.medianMs.median
    const what = `${farPage} in ${ratio.toFixed(2)} times the time of page 1${when}, at most ${farPageRatio}`
    goals.push({ what, isMet: ratio <= farPageRatio })
  }
  return goals
}

const ofFewer = (subscribers: number): string =>
  subscribers >= usualSubscribers
    ? ''
    : ` (of ${subscribers.toLocaleString('en')} subscribers; the goal is set for ${usualSubscribers.toLocaleString('en')})`

const latenciesOf = (results: Map<string, OperationResult>, when: string) =>
  [...results].map(([name, { latency }]) => ({ name: `${name}${when}`, ...latency }))

/** What the API counts, against a count of the subscribers themselves. */
async function wrongCounts(
  { client, database }: MeasuredService,
  { lists }: LoadedSubscribers,
): Promise<string | null> {
  const shown = await client.get<{ counts: Record<string, number> }>('/subscriber_counts')
  const counted = await database.collections.subscribers
    .aggregate<{ _id: string; count: number }>([{ $group: { _id: '$status', count: { $sum: 1 } } }])
    .toArray()
  const truth = new Map(counted.map(({ _id, count }) => [_id, count]))
  const loaded = lists.reduce((sum, { size }) => sum + size, 0)
  const total = counted.reduce((sum, { count }) => sum + count, 0)
  const wrong = subscriberStatuses.filter((status) => shown.counts[status] !== (truth.get(status) ?? 0))
  if (total < loaded) return `${total} subscribers are there, ${loaded} were loaded`
  return wrong.length === 0
    ? null
    : wrong
        .map((status) => `${status}: ${shown.counts[status]} shown, ${truth.get(status) ?? 0} there`)
        .join('; ')
}

const load = () => loadavg()[0]!.toFixed(1)
