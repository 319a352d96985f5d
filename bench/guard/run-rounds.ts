import { wrongCounts } from '../contenders/check-import.ts'
import { createList, importEnd, install, type Installation } from '../contenders/installation.ts'
import type { WrittenFile } from '../datasets/subscriber-file.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { measuredProcess } from '../processes.ts'
import type { BenchContext, Contender, Measurement } from '../scenario.ts'
import { works, type Cost, type Rounds, type WorkName } from './judge.ts'

/**
 * Rounds of the three kinds of work, Rollcall and csv-parse with bulkWrite in turn, who comes first by turns as well.
 * One installation does all of its imports, some of them before it counts: its code is compiled by then. The peer is a
 * new process each time, as who runs a script has it.
 */
export async function runRounds(context: BenchContext, rounds: number): Promise<Rounds> {
  const first = await writeSubscriberFile(context, { name: 'first.csv', defects: false })
  const second = await writeSubscriberFile(context, { name: 'second.csv', defects: false, revision: 1 })
  const peers = await peersOf({ ...context, rows: Math.ceil(context.rows / 3) })
  const installation = await install(context, `guard-${process.pid}`)
  const measured: Rounds = { 'new rows': [], overwriting: [], 'all skipped': [] }
  try {
    await installation.place(first.file, 'first.csv')
    await installation.place(second.file, 'second.csv')
    for (let round = -warmUps; round < 0; round += 1) {
      const ours = await ownWorks(context, installation, first, round)
      for (const work of works) await ours[work]()
    }
    for (let round = 0; round < rounds; round += 1) {
      const ours = await ownWorks(context, installation, first, round)
      for (const work of works) {
        const order = round % 2 === 0 ? (['ours', 'peer'] as const) : (['peer', 'ours'] as const)
        const costs: Partial<Record<'ours' | 'peer', Cost>> = {}
        for (const who of order) costs[who] = who === 'ours' ? await ours[work]() : await costOf(peers[work])
        measured[work].push({ ours: costs.ours!, peer: costs.peer! })
      }
    }
  } finally {
    await installation.remove()
  }
  return measured
}

const warmUps = 2

/** A third of the rows: a row takes them longer, and an import of ours has costs that aren't a row's. */
async function peersOf(context: BenchContext): Promise<Record<WorkName, Contender>> {
  const first = await writeSubscriberFile(context, { name: 'peer-first.csv', defects: false })
  const second = await writeSubscriberFile(context, { name: 'peer-second.csv', defects: false, revision: 1 })
  const before = first.dataset
  return {
    'new rows': bulkWritePeer(context, { ...first, overwrite: true }),
    overwriting: bulkWritePeer(context, { ...second, before, overwrite: true }),
    'all skipped': bulkWritePeer(context, { ...first, before, overwrite: false }),
  }
}

async function costOf(contender: Contender): Promise<Cost> {
  const { isRight, ...measured } = await contender.run()
  if (!isRight) throw new Error(`${contender.name} did its work wrong`)
  return costIn(measured)
}

const costIn = ({
  clientMicroseconds,
  serverMicroseconds,
  seconds,
  rows,
}: Omit<Measurement, 'isRight'>): Cost => ({
  client: clientMicroseconds,
  server: serverMicroseconds,
  elapsed: (seconds / rows) * 1e6,
})

/** The three one after the other on a new list: each finds what the one before left. */
async function ownWorks(
  context: BenchContext,
  { client, metrics }: Installation,
  { dataset }: WrittenFile,
  round: number,
): Promise<Record<WorkName, () => Promise<Cost>>> {
  const { listId } = await createList(client, `Round ${round}`, dataset)
  const importFile = async (filename: string, overwrite: boolean, expected: string): Promise<Cost> => {
    let wrong: string | null = null
    const measured = await context.measure({
      // The control plane does nothing but answer who asks whether it has ended.
      processes: [measuredProcess('engine', metrics['engine']!)],
      // Looks would be part of what is measured, and more of them the slower it is.
      pollIntervalMs: 60_000,
      do: async () => {
        const { id } = await client.post<{ id: number }>(`/mailing_lists/${listId}/subscriber_imports`, {
          subscriber_import: {
            column_mapping: dataset.columns,
            overwrite,
            file_source: { type: 'upload_directory', filename },
          },
        })
        wrong = wrongCounts(await importEnd(client, id), { [expected]: dataset.rows })
      },
    })
    if (wrong !== null) throw new Error(wrong)
    return costIn(measured)
  }
  return {
    'new rows': () => importFile('first.csv', false, 'added'),
    overwriting: () => importFile('second.csv', true, 'updated'),
    'all skipped': () => importFile('first.csv', false, 'skipped_overwrite'),
  }
}
