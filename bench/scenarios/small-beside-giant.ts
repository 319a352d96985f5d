import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { createList, documentsOf, importEnd, secondsOf } from '../contenders/installation.ts'
import { placeUpload } from '../contenders/place-upload.ts'
import { wrongCounts, wrongDocuments } from '../contenders/rollcall-import.ts'
import { SubscriberFile, writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { startMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { linesOf, startImport } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import type { Goal, Study, StudyOptions } from '../scenario.ts'
import { latencyOf, spread } from '../statistics.ts'

/**
 * One organization imports millions of rows; others import 500 each meanwhile, one after the other: while the giant is
 * split, and from then on in even parts of the way to its end.
 */
export const smallBesideGiant: Study = {
  name: 'small-beside-giant',
  summary: '500 rows of another organization while an import of 5,000,000 runs: from begins_at to finished',
  async run(options) {
    const service = await startMeasuredService(options.folder)
    try {
      return await measure(service, options)
    } finally {
      await service.stop()
    }
  },
}

const usualRows = 5_000_000
const smallRows = 500
/** Where the giant stands when a small one comes, in parts of its rows. */
const moments = [0, 0.02, 0.2, 0.4, 0.6, 0.8]
const mostSeconds = 3

async function measure(service: MeasuredService, { rows, rounds, seed, folder, say }: StudyOptions) {
  const { client, database } = service
  const { dataset, file } = await writeSubscriberFile({ rows: rows ?? usualRows, seed, folder, say })
  await placeUpload(file, { STAGING: 'disk', DATA_DIR: path.join(folder, 'data') }, database)
  const small = new SubscriberFile({ rows: smallRows, seed: seed + 1, defects: false })
  const content = [...linesOf(small, [{ first: 0, count: smallRows }])].join('')
  const seconds: number[] = []
  const giants: number[] = []
  let wrong: string | null = null
  for (let round = 1; round <= rounds; round += 1) {
    const list = await createList(client, `Giant ${round}`, dataset)
    const giant = await startImport(service, list.listId, { type: 'upload_directory', filename: 'rows.csv' })
    for (const part of moments) {
      const state = await untilRows(service, giant.id, part * dataset.rows)
      const { id: organizationId } = await client.post<{ id: number }>('/organizations', {
        organization: { name: `Small ${round} ${part}` },
      })
      const smallList = await createList(client, 'Small', small, organizationId)
      const { id } = await startImport(service, smallList.listId, { type: 'json', content })
      const view = await importEnd(client, id)
      wrong ??=
        wrongCounts(view, { added: smallRows }) ??
        wrongDocuments(await documentsOf(database, smallList), small.expectedDocuments())
      if (wrong !== null) break
      const took = await secondsOf(database, id)
      seconds.push(took)
      say(`round ${round}  500 rows in ${took.toFixed(2)} s; the giant was ${state}`)
    }
    wrong ??=
      wrongCounts(await importEnd(client, giant.id), dataset.expectedCounts()) ??
      wrongDocuments(await documentsOf(database, list), dataset.expectedDocuments())
    if (wrong !== null) {
      say(`WRONG RESULT: ${wrong}`)
      break
    }
    giants.push(dataset.rows / (await secondsOf(database, giant.id)))
    say(`round ${round}  the giant did ${Math.round(giants.at(-1)!).toLocaleString('en')} rows/s`)
    await database.collections.subscribers.deleteMany({ mailing_list_id: list.listId })
  }
  const goals: Goal[] = []
  if (seconds.length > 0) {
    const times = spread(seconds)
    const what = `500 rows beside ${dataset.rows.toLocaleString('en')}: ${times.median.toFixed(2)} s (${times.least.toFixed(2)} to ${times.most.toFixed(2)}), each under ${mostSeconds} s`
    goals.push({ what, isMet: times.most < mostSeconds, measured: times })
  }
  for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
  return {
    isRight: wrong === null,
    result: {
      mongodb: await serverVersion(database.client),
      rows: dataset.rows,
      small_rows: smallRows,
      seconds,
      giant_rows_per_second: giants,
    },
    goals,
    latencies: [
      {
        name: 'small import beside a giant',
        ...latencyOf(
          'an import of 500 rows',
          seconds.map((value) => value * 1000),
        ),
      },
    ],
  }
}

/** When the import has done so many rows, or ended; how it stands then. */
async function untilRows({ client }: MeasuredService, id: number, rows: number): Promise<string> {
  for (;;) {
    const { state, stats } = await client.get<ImportView>(`/subscriber_imports/${id}`)
    const { number_of_records: all, records_imported: done } = stats
    if (done >= rows || !['scheduled', 'splitting', 'importing'].includes(state))
      return all === null ? state : `${state}, at ${Math.floor((done / all) * 100)} %`
    await sleep(50)
  }
}
