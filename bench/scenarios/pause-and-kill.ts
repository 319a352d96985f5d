import { createReadStream } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasEnded } from '../../shared/contract/import-state.ts'
import { wrongImport } from '../check-import.ts'
import { maxMilliseconds, onServices } from '../compare.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import type { Service } from '../service.ts'

const disturbed = 'disturbed (server CPU only)'

/**
 * An undisturbed import, and one that is paused and unpaused at a quarter of its rows, and whose engine gets a SIGKILL
 * at the half. Measured are the time from the pause's request to the last written row, and from the kill to the next
 * one. Both must leave the same counts, subscribers and logs.
 */
export const pauseAndKill = onServices({
  name: 'pause-and-kill',
  summary:
    'how soon a pause takes effect, and how soon an import resumes after kill -9 of its engine, with the same counts',
  quick: ['--rows', '200000', '--rounds', '1'],
  defaultRows: 1_000_000,
  kinds: ['undisturbed', disturbed],
  timesOf: 'an interruption',
  /** `logs`: those of the first import, which all others must equal. */
  prepare: async (options) => ({ ...(await writeSubscriberFile(options)), logs: null as string[] | null }),
  goals: ({ contenders }) => {
    const [pause, recovery] = contenders[1]!.found
    return [
      { ...maxMilliseconds(pause, 1_000), work: 'a pause takes effect' },
      { ...maxMilliseconds(recovery, 5_000), work: "a killed engine's rows are written again" },
    ]
  },
  async measure(service, input, { rows, kind }) {
    const { dataset, file } = input
    const { client, database, processes, place } = service
    await place(createReadStream(file), 'rows.csv')
    const list = await createList(client, kind)
    const isDisturbed = kind === disturbed
    const times: Record<string, number[]> = {}
    const { done: view, ...measured } = await measure(database.client, {
      // Of a disturbed import no process: the killed engine's part would be missing.
      processes: isDisturbed ? [] : processes,
      rows,
      do: async () => {
        const id = await startImport(client, list.listId, { file_source: uploaded('rows.csv') })
        if (isDisturbed) {
          await waitForShare(service, id, 0.25)
          times['from a pause until no row is written'] = [await pauseMilliseconds(service, id)]
          await client.post(`/subscriber_imports/${id}/unpause`)
          await waitForShare(service, id, 0.5)
          times['from a kill until its own rows are written again'] = await recoveryMilliseconds(service)
        }
        return pollImport(client, id)
      },
    })
    const expected = dataset.expectedCounts()
    const wrong = await wrongImport(service, { view, list, expected, leaves: dataset })
    const logs = await readLogs(service, view.id)
    input.logs ??= logs
    const differing = logs.some((log, i) => log !== input.logs![i])
      ? "a log isn't that of the first import"
      : null
    return { ...measured, times, wrong: wrong ?? differing }
  },
})

async function waitForShare({ client }: Service, id: number, share: number): Promise<void> {
  const view = await pollImport(
    client,
    id,
    ({ stats }) =>
      stats.number_of_records !== null && stats.records_imported >= share * stats.number_of_records,
  )
  if (hasEnded(view.state))
    throw new Error(`the import was ${view.state} before it was disturbed: take more rows`)
}

/** The number of batches that all imports have written; this query is cheap. */
const countBatches = ({ database }: Service): Promise<number> =>
  database.collections.outcomes.estimatedDocumentCount()

/** From the request to the last batch before 3 s without one. Batches may be written until the answer. */
async function pauseMilliseconds(service: Service, id: number): Promise<number> {
  let written = await countBatches(service)
  const requestedAt = performance.now()
  const answered = service.client.post(`/subscriber_imports/${id}/pause`)
  let [now, lastAt] = [requestedAt, requestedAt]
  while (now - lastAt <= 3_000) {
    await sleep(10)
    const count = await countBatches(service)
    now = performance.now()
    if (count !== written) [written, lastAt] = [count, now]
  }
  await answered
  return lastAt - requestedAt
}

/** For each chunk that the killed engine worked on: from the kill to its next batch. Other chunks may go on before. */
async function recoveryMilliseconds({ database: { collections } }: Service): Promise<number[]> {
  const engine = await collections.engines.findOne({ dead: false }, { sort: { started_at: -1 } })
  if (engine === null) throw new Error('no engine is registered')
  process.kill(engine.process_id, 'SIGKILL')
  const killedAt = performance.now()
  // A batch that was sent before the kill may still commit.
  await sleep(500)
  const own = { state: 'running', 'lease.holder': engine._id } as const
  const waiting = new Map(
    (await collections.chunks.find(own).toArray()).map((chunk) => [chunk._id, chunk.next_record]),
  )
  if (waiting.size === 0) throw new Error('the killed engine worked on no chunk: take more rows')
  const milliseconds: number[] = []
  while (waiting.size > 0) {
    await sleep(20)
    for (const { _id, state, next_record } of await collections.chunks
      .find({ _id: { $in: [...waiting.keys()] } })
      .toArray())
      if ((state === 'done' || next_record > waiting.get(_id)!) && waiting.delete(_id))
        milliseconds.push(performance.now() - killedAt)
  }
  return milliseconds
}

function readLogs({ url, authorization }: Service, id: number): Promise<string[]> {
  const read = async (kind: string) => {
    const path = `/svc/api/v2/subscriber_imports/${id}/logs/${kind}`
    return (await fetch(`${url}${path}`, { headers: { authorization } })).text()
  }
  return Promise.all(['added', 'failed', 'skipped_duplicate'].map(read))
}
