import { createReadStream } from 'node:fs'
import path from 'node:path'
import { wrongCounts } from '../check-import.ts'
import { writeSubscriberFile, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import type { Bench, Contender, Measured } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { works, type Cost, type Rounds, type WorkName } from './judge.ts'

const warmUps = 2

/**
 * Rollcall and csv-parse with bulkWrite do the three kinds of work, alternately first. One service does all imports, and
 * warms up with some that don't count. The peer is a new process each time, as when a script is run.
 */
export async function runRounds(bench: Bench, rounds: number): Promise<Rounds> {
  const first = await writeSubscriberFile(bench, { name: 'first.csv', defects: false })
  const second = await writeSubscriberFile(bench, { name: 'second.csv', defects: false, revision: 1 })
  // The peer takes longer for a row, and our imports have costs that don't depend on the rows.
  const peers = await preparePeers({ ...bench, rows: Math.ceil(bench.rows / 3) })
  const measured: Rounds = { 'new rows': [], overwriting: [], 'all skipped': [] }
  const database = `bench_guard-${process.pid}`
  const options = { folder: path.join(bench.folder, database), mongodb: { uri: bench.mongodbUri, database } }
  await withService(options, async (service) => {
    await service.place(createReadStream(first.file), 'first.csv')
    await service.place(createReadStream(second.file), 'second.csv')
    for (let round = -warmUps; round < rounds; round += 1) {
      const ours = await prepareOurs(bench, service, first.dataset, round)
      for (const work of works) {
        if (round < 0) await ours[work]()
        else if (round % 2 === 0)
          measured[work].push({ ours: await ours[work](), peer: await runPeer(peers[work]) })
        else {
          const peer = await runPeer(peers[work])
          measured[work].push({ ours: await ours[work](), peer })
        }
      }
    }
  })
  return measured
}

async function preparePeers(bench: Bench): Promise<Record<WorkName, Contender>> {
  const first = await writeSubscriberFile(bench, { name: 'peer-first.csv', defects: false })
  const second = await writeSubscriberFile(bench, { name: 'peer-second.csv', defects: false, revision: 1 })
  const before = first.dataset
  return {
    'new rows': bulkWritePeer(bench, { ...first, overwrite: true }),
    overwriting: bulkWritePeer(bench, { ...second, before, overwrite: true }),
    'all skipped': bulkWritePeer(bench, { ...first, before, overwrite: false }),
  }
}

async function runPeer(contender: Contender): Promise<Cost> {
  const measured = await contender.run()
  if (!measured.is_right) throw new Error(`${contender.name} did its work wrong`)
  return toCost(measured)
}

const toCost = ({ client_us_per_row: client, server_us_per_row: server, seconds, rows }: Measured): Cost => ({
  client,
  server,
  elapsed: (seconds / rows) * 1e6,
})

/** The three kinds of work on a new list; each needs what the one before left. */
async function prepareOurs(
  bench: Bench,
  { client, processes }: Service,
  dataset: SubscriberFile,
  round: number,
): Promise<Record<WorkName, () => Promise<Cost>>> {
  const { listId } = await createList(client, `Round ${round}`)
  const importFile = async (filename: string, overwrite: boolean, expected: string): Promise<Cost> => {
    const { done: view, ...measured } = await measure(bench.server, {
      // The control plane only answers the polls of this benchmark.
      processes: processes.filter(({ name }) => name === 'engine'),
      rows: dataset.rows,
      // Samples would be part of the cost, and a slower import would have more of them.
      sampleIntervalMs: 60_000,
      do: async () => {
        const request = { overwrite, file_source: uploaded(filename) }
        return pollImport(client, await startImport(client, listId, request))
      },
    })
    const wrong = wrongCounts(view, { [expected]: dataset.rows })
    if (wrong !== null) throw new Error(wrong)
    return toCost(measured)
  }
  return {
    'new rows': () => importFile('first.csv', false, 'added'),
    overwriting: () => importFile('second.csv', true, 'updated'),
    'all skipped': () => importFile('first.csv', false, 'skipped_overwrite'),
  }
}
