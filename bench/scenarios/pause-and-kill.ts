import { createReadStream } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { importEnded } from '../../control-plane/cli/api-client.ts'
import { wrongImport } from '../check-import.ts'
import { writeSubscriberFile, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { describeCosts, two, withRange } from '../report/text.ts'
import { goalThatBegins, type Goal, type Measured, type Scenario, type Timeline } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { summarizeLatency, spread } from '../statistics.ts'

/**
 * In each round one undisturbed import, and one that is paused and unpaused at a quarter of its rows, and whose engine
 * gets a SIGKILL at the half. Measured are the time from the pause's request to the last written row, and from the kill
 * to the next one. Both imports must leave the same counts, subscribers and logs.
 */
export const pauseAndKill: Scenario = {
  name: 'pause-and-kill',
  summary:
    'how soon a pause takes effect, and how soon an import resumes after kill -9 of its engine, with the same counts',
  quick: ['--rows', '200000', '--rounds', '1'],
  targets: [
    { work: 'a pause takes effect', against: '', max: 1, unit: ' s', find: goalThatBegins('a pause') },
    {
      work: 'rows are written again after kill -9, and counts, subscribers and logs are the same in the end',
      against: '',
      max: 25,
      unit: ' s',
      find: goalThatBegins('rows are written again'),
    },
  ],
  async run(options) {
    const { rows, rounds, say } = options
    const { dataset, file } = await writeSubscriberFile({ ...options, rows: rows ?? 1_000_000 })
    return withService({ folder: options.folder }, async (service) => {
      await service.place(createReadStream(file), 'rows.csv')
      const measured: Round[] = []
      for (let round = 1; round <= rounds && measured.every(({ wrong }) => wrong === null); round += 1) {
        const one = await measureRound(service, dataset, round)
        measured.push(one)
        const verdict = one.wrong === null ? '' : `  WRONG RESULT: ${one.wrong}`
        say(
          `round ${round}  paused within ${two(one.pause)} s, rows again ${one.recovery.toFixed(1)} s after the kill${verdict}`,
        )
      }
      const undisturbed = measured.map((one) => one.undisturbed)
      const pauses = measured.map(({ pause }) => pause)
      const recoveries = measured.map(({ recovery }) => recovery)
      say(`undisturbed  ${describeCosts(undisturbed, 'a row')}`)
      const interruption = (seconds: number[]) =>
        summarizeLatency(
          'an interruption',
          seconds.map((value) => value * 1_000),
        )
      return {
        mongodb: await serverVersion(service.database.client),
        rows: dataset.rows,
        isRight: measured.every(({ wrong }) => wrong === null),
        result: { pause_seconds: pauses, recovery_seconds: recoveries },
        goals: [
          goal('a pause takes effect', pauses, 1),
          goal('rows are written again after kill -9', recoveries, 25),
        ],
        latencies: [
          { name: 'pause, until no row is written', ...interruption(pauses) },
          { name: 'kill, until rows are written again', ...interruption(recoveries) },
        ],
        timelines: [
          { name: 'undisturbed', rounds: undisturbed.map(({ timeline }) => timeline) },
          { name: 'paused and killed', rounds: measured.map(({ timeline }) => timeline) },
        ],
      }
    })
  },
}

interface Round {
  undisturbed: Measured
  /** Seconds. */
  pause: number
  recovery: number
  timeline: Timeline
  wrong: string | null
}

async function measureRound(service: Service, dataset: SubscriberFile, round: number): Promise<Round> {
  const { client, database, processes } = service
  const { rows } = dataset
  const request = { file_source: uploaded('rows.csv') }
  const calm = await createList(client, `Undisturbed ${round}`, dataset)
  const undisturbed = await measure(database.client, {
    processes,
    rows,
    do: async () => pollImport(client, await startImport(client, calm.listId, dataset, request)),
  })
  const list = await createList(client, `Disturbed ${round}`, dataset)
  // No process: the killed engine's part would be missing, and the client would seem to use little.
  const { done, timeline } = await measure(database.client, {
    processes: [],
    rows,
    do: async () => {
      const id = await startImport(client, list.listId, dataset, request)
      await waitForShare(service, id, 0.25)
      const pause = await pauseSeconds(service, id)
      await client.post(`/subscriber_imports/${id}/unpause`)
      await waitForShare(service, id, 0.5)
      const recovery = await recoverySeconds(service)
      return { pause, recovery, view: await pollImport(client, id) }
    },
  })
  const { pause, recovery, view } = done
  const expected = dataset.expectedCounts()
  const wrong =
    (await wrongImport(service, { view: undisturbed.done, list: calm, expected, leaves: dataset })) ??
    (await wrongImport(service, { view, list, expected, leaves: dataset })) ??
    (await differentLogs(service, undisturbed.done.id, view.id))
  return { undisturbed, pause, recovery, timeline, wrong }
}

function goal(what: string, seconds: number[], maxSeconds: number): Goal {
  const measured = spread(seconds)
  return {
    what: `${what}: ${withRange(measured, two)} s, each under ${maxSeconds} s`,
    isMet: measured.max < maxSeconds,
    measured,
  }
}

async function waitForShare({ client }: Service, id: number, share: number): Promise<void> {
  const view = await pollImport(
    client,
    id,
    ({ stats }) =>
      stats.number_of_records !== null && stats.records_imported >= share * stats.number_of_records,
  )
  if (importEnded(view))
    throw new Error(`the import was ${view.state} before it was disturbed: take more rows`)
}

/** The number of batches that all imports have written; this query is cheap. */
const countBatches = ({ database }: Service): Promise<number> =>
  database.collections.outcomes.estimatedDocumentCount()

const quietMs = 3_000

/** From the request to the last batch before 3 s without one. */
async function pauseSeconds(service: Service, id: number): Promise<number> {
  const requestedAt = performance.now()
  await service.client.post(`/subscriber_imports/${id}/pause`)
  let [written, lastAt] = [await countBatches(service), requestedAt]
  for (;;) {
    const now = performance.now()
    const count = await countBatches(service)
    if (count !== written) [written, lastAt] = [count, now]
    if (now - lastAt > quietMs) return (lastAt - requestedAt) / 1000
    await sleep(10)
  }
}

/** From the kill to the next batch. */
async function recoverySeconds(service: Service): Promise<number> {
  const [engine] = await service.database.collections.engines
    .find()
    .sort({ started_at: -1 })
    .limit(1)
    .toArray()
  if (engine === undefined) throw new Error('no engine is registered')
  process.kill(engine.process_id, 'SIGKILL')
  const killedAt = performance.now()
  // A batch that was sent before the kill may still commit.
  await sleep(500)
  const before = await countBatches(service)
  while ((await countBatches(service)) === before) await sleep(20)
  return (performance.now() - killedAt) / 1000
}

async function differentLogs({ url, authorization }: Service, undisturbed: number, id: number) {
  const read = async (importId: number, kind: string) => {
    const path = `/svc/api/v2/subscriber_imports/${importId}/logs/${kind}`
    return (await fetch(`${url}${path}`, { headers: { authorization } })).text()
  }
  for (const kind of ['added', 'failed', 'skipped_duplicate'])
    if ((await read(undisturbed, kind)) !== (await read(id, kind)))
      return `the log ${kind} isn't that of an undisturbed import`
  return null
}
