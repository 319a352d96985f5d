import { mkdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { Cannon, type Volley } from '../load/cannon.ts'
import { costOf, describePeaks, type Cost } from '../load/cost.ts'
import { mayGrow, operationsOn, type Operation } from '../load/operations.ts'
import { resultOf, rowsOfTable, type MeasuredVolley, type OperationResult } from '../load/report.ts'
import { RunningImport, writeImportFiles } from '../load/running-import.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { loadSubscribers, type LoadedSubscribers } from '../load/subscribers.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { whole } from '../report/text.ts'
import type { Goal, Outcome, Study, StudyOptions, Timeline } from '../scenario.ts'

/**
 * How long requests take on an organization with many subscribers, and how long while an import runs into the very list
 * that they read and write. Every connection sends its next request when it has the reply to the last one, so the
 * service is never idle: the figures are those of a full house.
 */
export const requests: Study = {
  name: 'requests',
  summary:
    'requests about subscribers by 16 connections, without an import and while one runs; counts and pages of more subscribers',
  quick: ['--subscribers', '20000,40000', '--seconds', '1', '--rounds', '1'],
  full: ['--subscribers', '1000000,5000000,10000000'],
  async run(options) {
    const folder = options.data ?? options.folder
    await mkdir(folder, { recursive: true })
    return onMeasuredService(folder, (service) => measureAll(service, folder, options))
  },
}

/** Where an import runs, a reply may take so many times as long. */
const maxSlowdownDuringImport = 4
const farPageRatio = 1.5
const warmUpSeconds = 1
/** Seldom: a look is a request too, of 1-2 ms. */
const pollIntervalMs = 5_000
/** That the goals are set for. */
const usualSubscribers = 5_000_000

async function measureAll(service: MeasuredService, folder: string, options: StudyOptions): Promise<Outcome> {
  const { say, seed, connections, only } = options
  const [subscribers, ...more] = options.subscribers as [number, ...number[]]
  let loaded = await loadSubscribers(service, { subscribers, seed, folder, say })
  say('taking samples, and going through the big list page by page ...')
  const { operations: all, farPage } = await operationsOn(service, loaded, seed)
  const isWanted = ({ name }: Operation) => name.includes(only ?? '')
  const operations = all.filter(isWanted)
  if (operations.length === 0)
    throw new Error(
      `--only ${only}: no operation has that in its name; there are ${all.map(({ name }) => name).join('; ')}`,
    )
  const importRows = options.rows ?? Math.min(1_000_000, Math.ceil(subscribers / 5))
  const files = await writeImportFiles(service, loaded, importRows)
  const cannon = new Cannon()
  try {
    say(`\n${connections} connections, no import (load average ${load()})`)
    const quiet = await measurePhase(service, cannon, operations, options)

    const running = new RunningImport(service, loaded.lists[0]!.id, files)
    await running.start()
    say(
      `\n${connections} connections, imports of ${importRows.toLocaleString('en')} rows (load average ${load()})`,
    )
    const busy = await measurePhase(service, cannon, operations, options)
    const imported = await running.stop()
    const importedPerSecond = imported.rows / imported.seconds
    say(
      `the imports did ${Math.round(importedPerSecond).toLocaleString('en')} rows/s (load average ${load()})`,
    )

    const grown: (Phase & { subscribers: number; operations: Operation[] })[] = []
    for (const subscribers of operations.some(mayGrow) ? more : []) {
      say('')
      loaded = await loadSubscribers(service, { subscribers, seed, folder, say })
      const { operations: ofMore } = await operationsOn(service, loaded, seed)
      const operations = ofMore.filter(mayGrow).filter(isWanted)
      say(`${connections} connections, no import, ${whole(subscribers)} subscribers (load average ${load()})`)
      grown.push({
        ...(await measurePhase(service, cannon, operations, options)),
        subscribers,
        operations,
      })
    }

    const goals = [
      ...goalsOf(subscribers, operations, quiet.results, ''),
      ...goalsOf(subscribers, operations, busy.results, ' during an import', maxSlowdownDuringImport),
      ...grown.flatMap(({ subscribers, operations, results }) =>
        goalsOf(subscribers, operations, results, ''),
      ),
    ]
    say('')
    for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
    const countProblem = await wrongCounts(service, loaded)
    if (countProblem !== null) say(`\nWRONG COUNTS: ${countProblem}`)
    const results = [quiet, busy, ...grown].flatMap(({ results }) => [...results.values()])
    for (const sentence of results.flatMap(({ wrong }) => wrong)) say(`WRONG REPLY: ${sentence}`)
    const shown = [
      { plot: 'no import', ending: '', phase: quiet },
      { plot: 'during an import', ending: '', phase: busy },
      ...(grown.length === 0 ? [] : [{ ...whatMayGrow(quiet), subscribers }, ...grown]).map((phase) => ({
        plot: 'more subscribers',
        ending: ` of ${whole(phase.subscribers)}`,
        phase,
      })),
    ]
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
        quiet: Object.fromEntries(quiet.results),
        during_import: Object.fromEntries(busy.results),
        with_more_subscribers: grown.map(({ subscribers, results, peakMemoryMB }) => ({
          subscribers,
          quiet: Object.fromEntries(results),
          peak_memory_mb: peakMemoryMB,
        })),
        peak_memory_mb: { quiet: quiet.peakMemoryMB, during_import: busy.peakMemoryMB },
      },
      goals,
      latencies: shown.flatMap(({ plot, ending, phase: { results } }) =>
        [...results].map(([name, { latency }]) => ({ name: `${name}${ending}`, plot, ...latency })),
      ),
      timelines: [
        { name: 'no import', rounds: [quiet.timeline] },
        { name: 'during an import', rounds: [busy.timeline] },
        ...grown.map(({ subscribers, timeline }) => ({
          name: `${whole(subscribers)} subscribers`,
          rounds: [timeline],
        })),
        ...shown.flatMap(({ plot, ending, phase: { rounds } }) =>
          [...rounds].map(([name, rounds]) => ({ name: `${name}${ending}`, plot, of: 'requests', rounds })),
        ),
      ],
    }
  } finally {
    cannon.stop()
    for (const file of files) await rm(path.join(service.uploads, file), { force: true })
  }
}

const whatMayGrow = (phase: Phase): Phase => ({
  ...phase,
  results: new Map([...phase.results].filter(([name]) => mayGrow({ name }))),
  rounds: new Map([...phase.rounds].filter(([name]) => mayGrow({ name }))),
})

/** All rounds of some operations under the same circumstances. */
interface Phase {
  results: Map<string, OperationResult>
  /** Replies over time, of each round. */
  rounds: Map<string, Timeline[]>
  /** CPU and memory over all of it. */
  timeline: Timeline
  peakMemoryMB: Cost['peakMemoryMB']
}

async function measurePhase(
  service: MeasuredService,
  cannon: Cannon,
  operations: Operation[],
  options: StudyOptions,
): Promise<Phase> {
  const { done, timeline, cost } = await costOf(
    service,
    1,
    () => measureRounds(service, cannon, operations, options),
    { pollIntervalMs },
  )
  for (const row of rowsOfTable(done.results)) options.say(row)
  options.say(coresInUse(timeline))
  options.say(describePeaks(cost.peakMemoryMB))
  return { ...done, timeline: { ...timeline, rows: null }, peakMemoryMB: cost.peakMemoryMB }
}

/** Of each process, from the first request to the last. */
const coresInUse = ({ seconds, cpuSeconds }: Timeline): string =>
  `cores in use: ${Object.entries(cpuSeconds)
    .map(([name, used]) => `${name} ${(used.at(-1)! / seconds.at(-1)!).toFixed(2)}`)
    .join(', ')}`

/** Round after round over all operations, so that a slow minute of the machine is nobody's own. */
async function measureRounds(
  { url, authorization, cpuSeconds, database }: MeasuredService,
  cannon: Cannon,
  operations: Operation[],
  { rounds, seconds, connections, say }: StudyOptions,
): Promise<Pick<Phase, 'results' | 'rounds'>> {
  const volleys = new Map<string, MeasuredVolley[]>(operations.map(({ name }) => [name, []]))
  const timelines = new Map<string, Timeline[]>(operations.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round += 1) {
    for (const operation of operations) {
      const { name } = operation
      const isWarmUp = round === 0
      const requests = operation.requests(round)
      const before = await cpuSeconds()
      let volley: Volley | undefined
      const { timeline } = await measure(database.client, () => cannon.replies, {
        processes: [],
        progress: () => cannon.replies,
        do: async () => {
          volley = await cannon.fire({
            url,
            authorization,
            connections,
            seconds: isWarmUp ? warmUpSeconds : seconds,
            requests,
          })
        },
      })
      if (volley!.milliseconds.length === 0)
        say(`${name}: no reply came within ${volley!.seconds} s; ${volley!.errors} errors`)
      const after = await cpuSeconds()
      const cpu = {
        controlPlane: after.controlPlane - before.controlPlane,
        mongodb: after.mongodb - before.mongodb,
      }
      if (isWarmUp) continue
      volleys.get(name)!.push({ ...volley!, cpuSeconds: cpu })
      timelines.get(name)!.push({ ...timeline, cpuSeconds: {}, memoryMB: {} })
    }
  }
  return { results: new Map([...volleys].map(([name, list]) => [name, resultOf(list)])), rounds: timelines }
}

function goalsOf(
  subscribers: number,
  operations: Operation[],
  results: Phase['results'],
  when: string,
  patience = 1,
): Goal[] {
  const goals = operations.flatMap(({ name, goalMs }): Goal[] => {
    if (goalMs === null) return []
    const p99 = results.get(name)!.p99Ms.median
    const most = goalMs * patience
    return [{ what: `${name}${when}: p99 ${p99.toFixed(1)} ms, at most ${most}`, isMet: p99 <= most }]
  })
  const [firstPage, farPage] = operations.map(({ name }) => name).filter((name) => name.startsWith('page '))
  if (firstPage !== undefined && farPage !== undefined) {
    const ratio = results.get(farPage)!.medianMs.median / results.get(firstPage)!.medianMs.median
    const what = `${farPage} in ${ratio.toFixed(2)} times the time of page 1${when}, at most ${farPageRatio}`
    goals.push({ what, isMet: ratio <= farPageRatio })
  }
  return goals.map(({ what, isMet }) => ({ what: `${what} (${ofSubscribers(subscribers)})`, isMet }))
}

const ofSubscribers = (subscribers: number): string =>
  `of ${whole(subscribers)} subscribers${subscribers < usualSubscribers ? `; the goal is set for ${whole(usualSubscribers)}` : ''}`

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
