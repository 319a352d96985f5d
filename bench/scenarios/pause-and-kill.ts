import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { importEnded, type ImportView } from '../../control-plane/cli/api-client.ts'
import { wrongImport } from '../contenders/check-import.ts'
import { createList, importEnd, type List } from '../contenders/installation.ts'
import { placeUpload } from '../contenders/place-upload.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { costOf, costOfRounds, describeCosts, type Cost } from '../load/cost.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { startImport } from '../load/subscribers.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { measuredProcess } from '../processes.ts'
import type { Goal, Study, StudyOptions, Timeline } from '../scenario.ts'
import { latencyOf, spread } from '../statistics.ts'

/**
 * An import is paused at a quarter of its rows, and goes on; at the half its engine is killed with SIGKILL, and the
 * service starts another one. How long rows were still written after the pause was asked for, how long none was written
 * after the kill, and whether the import leaves what an undisturbed one leaves: counts, subscribers, logs.
 */
export const pauseAndKill: Study = {
  name: 'pause-and-kill',
  summary:
    'how soon a pause holds, and how soon an import goes on after kill -9 of its engine, with the same counts',
  quick: ['--rows', '200000', '--rounds', '1'],
  run: (options) => onMeasuredService(options.folder, (service) => measureAll(service, options)),
}

const usualRows = 1_000_000
const source = { type: 'upload_directory', filename: 'rows.csv' }
const maxPauseSeconds = 1
const maxRecoverySeconds = 25
/** A pause holds when nothing was written for so long. */
const quietMs = 3_000

async function measureAll(service: MeasuredService, { rows, rounds, seed, folder, say }: StudyOptions) {
  const { client, database } = service
  const { dataset, file } = await writeSubscriberFile({ rows: rows ?? usualRows, seed, folder, say })
  await placeUpload(file, { STAGING: 'disk', DATA_DIR: path.join(folder, 'data') }, database)
  const wrongEnd = async (view: ImportView, list: List) =>
    wrongImport(service, { view, list, expected: dataset.expectedCounts(), leaves: dataset })
  let wrong: string | null = null
  const costs: Cost[] = []
  const timelines: Timeline[] = []
  const pauses: number[] = []
  const recoveries: number[] = []
  const disturbedTimelines: Timeline[] = []
  for (let round = 1; round <= rounds && wrong === null; round += 1) {
    const undisturbed = await createList(client, `Undisturbed ${round}`, dataset)
    // The engine that is killed takes its figures along: cost is that of the undisturbed import.
    const { done, cost, timeline: ofUndisturbed } = await importWhole(service, undisturbed, dataset.rows)
    costs.push(cost)
    timelines.push(ofUndisturbed)
    const list = await createList(client, `Disturbed ${round}`, dataset)
    const { pause, recovery, view, timeline } = await disturb(service, list, dataset.rows)
    wrong =
      (await wrongEnd(done, undisturbed)) ??
      (await wrongEnd(view, list)) ??
      (await wrongLogs(service, done.id, view.id))
    pauses.push(pause)
    recoveries.push(recovery)
    disturbedTimelines.push(timeline)
    say(
      `round ${round}  paused within ${pause.toFixed(2)} s, rows again ${recovery.toFixed(1)} s after the kill${wrong === null ? '' : `  WRONG RESULT: ${wrong}`}`,
    )
  }
  const goals: Goal[] = []
  if (pauses.length > 0)
    goals.push(
      goal('a pause holds', pauses, maxPauseSeconds),
      goal('rows are written again after kill -9', recoveries, maxRecoverySeconds),
    )
  say(`undisturbed  ${describeCosts(costs)}`)
  for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
  if (wrong !== null) say(`WRONG RESULT: ${wrong}`)
  return {
    isRight: wrong === null,
    result: {
      mongodb: await serverVersion(database.client),
      rows: dataset.rows,
      cost_a_row_undisturbed: costOfRounds(costs),
      pause_seconds: pauses,
      recovery_seconds: recoveries,
    },
    goals,
    latencies: [
      { name: 'pause, until no row is written', ...latencyOf('an interruption', milliseconds(pauses)) },
      {
        name: 'kill, until rows are written again',
        ...latencyOf('an interruption', milliseconds(recoveries)),
      },
    ],
    timelines: [
      { name: 'undisturbed', rounds: timelines },
      { name: 'paused and killed', rounds: disturbedTimelines },
    ],
  }
}

const milliseconds = (seconds: number[]): number[] => seconds.map((value) => value * 1_000)

function importWhole(service: MeasuredService, { listId }: List, rows: number) {
  return costOf(service, rows, async () => {
    const { id } = await startImport(service, listId, source)
    return importEnd(service.client, id)
  })
}

/** An import that is paused and goes on, whose engine is then killed, and which is waited for. */
async function disturb(service: MeasuredService, list: List, rows: number) {
  const { client, database, metrics } = service
  let disturbed: { pause: number; recovery: number; view: ImportView } | undefined
  const { timeline } = await measure(database.client, rows, {
    processes: [measuredProcess('control plane', metrics['control_plane']!)],
    do: async () => {
      const { id } = await startImport(service, list.listId, source)
      await untilPart(service, id, 0.25)
      const pause = await pauseSeconds(service, id)
      await client.post(`/subscriber_imports/${id}/unpause`)
      await untilPart(service, id, 0.5)
      const recovery = await recoverySeconds(service)
      disturbed = { pause, recovery, view: await importEnd(client, id) }
    },
  })
  // Without an engine's part, and two had one, what the client used would only look small.
  const { cpuSeconds, memoryMB } = timeline
  const ofServer = {
    cpuSeconds: { mongod: cpuSeconds['mongod']! },
    memoryMB: { mongod: memoryMB['mongod']! },
  }
  return { ...disturbed!, timeline: { ...timeline, ...ofServer } }
}

function goal(what: string, seconds: number[], most: number): Goal {
  const measured = spread(seconds)
  const { median, least, most: longest } = measured
  return {
    what: `${what}: ${median.toFixed(2)} s (${least.toFixed(2)} to ${longest.toFixed(2)}), each under ${most} s`,
    isMet: longest < most,
    measured,
  }
}

async function untilPart({ client }: MeasuredService, id: number, part: number): Promise<void> {
  for (;;) {
    const view = await client.get<ImportView>(`/subscriber_imports/${id}`)
    if (importEnded(view))
      throw new Error(`the import was ${view.state} before it was disturbed: take more rows`)
    const { number_of_records: all, records_imported: done } = view.stats
    if (all !== null && done >= part * all) return
    await sleep(20)
  }
}

/** Batches that were written, of all imports; cheap to ask for. */
const batches = ({ database }: MeasuredService): Promise<number> =>
  database.collections.outcomes.estimatedDocumentCount()

/** From the request to the last batch that was written after it. */
async function pauseSeconds(service: MeasuredService, id: number): Promise<number> {
  const askedAt = performance.now()
  await service.client.post(`/subscriber_imports/${id}/pause`)
  let [written, lastAt] = [await batches(service), askedAt]
  for (;;) {
    const now = performance.now()
    const seen = await batches(service)
    if (seen !== written) [written, lastAt] = [seen, now]
    if (now - Math.max(lastAt, askedAt) > quietMs) return (lastAt - askedAt) / 1000
    await sleep(10)
  }
}

/** From the kill to the first batch that is written after it. */
async function recoverySeconds(service: MeasuredService): Promise<number> {
  const { engines } = service.database.collections
  const [engine] = await engines.find().sort({ started_at: -1 }).limit(1).toArray()
  process.kill(engine!.process_id, 'SIGKILL')
  const killedAt = performance.now()
  // What was sent when it died may still commit.
  await sleep(500)
  const before = await batches(service)
  while ((await batches(service)) === before) await sleep(20)
  return (performance.now() - killedAt) / 1000
}

const logKinds = ['added', 'failed', 'skipped_duplicate']

async function wrongLogs({ url, authorization }: MeasuredService, undisturbed: number, id: number) {
  const log = async (importId: number, kind: string) => {
    const response = await fetch(`${url}/svc/api/v2/subscriber_imports/${importId}/logs/${kind}`, {
      headers: { authorization },
    })
    return response.text()
  }
  for (const kind of logKinds)
    if ((await log(undisturbed, kind)) !== (await log(id, kind)))
      return `the log ${kind} isn't that of an undisturbed import`
  return null
}
