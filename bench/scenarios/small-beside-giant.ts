import { createReadStream } from 'node:fs'
import { hasEnded } from '../../shared/contract/import-state.ts'
import { wrongImport } from '../check-import.ts'
import { maxMilliseconds, onServices } from '../compare.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import { whole } from '../report/text.ts'
import type { Service } from '../service.ts'
import { checkSmallImports, prepareSmallImport, smallRows } from './many-small.ts'

/** The giant's progress when a small import comes: the first comes while the giant is split. */
const moments = [0, 0.02, 0.2, 0.4, 0.6, 0.8]

/** While an organization imports millions of rows, six others import 500 each, one after the other. */
export const smallBesideGiant = onServices({
  name: 'small-beside-giant',
  summary: '500 rows of another organization while an import of 5,000,000 runs: from begins_at to finished',
  quick: ['--rows', '600000', '--rounds', '1'],
  defaultRows: 5_000_000,
  kinds: ['the giant and the small ones'],
  timesOf: 'an import of 500 rows',
  prepare: writeSubscriberFile,
  goals: ({ contenders }) => [
    {
      ...maxMilliseconds(contenders[0]!.found[0], 3_000),
      work: '500 rows of another organization beside a giant',
      set_for: 5_000_000,
    },
  ],
  async measure(service, { dataset, file }, { rows, seed, say }) {
    const { client, database, processes, place } = service
    await place(createReadStream(file), 'rows.csv')
    const list = await createList(client, 'Giant')
    const { done, ...work } = await measure(database.client, {
      processes,
      rows: rows + moments.length * smallRows,
      do: async () => {
        const id = await startImport(client, list.listId, { file_source: uploaded('rows.csv') })
        const smallImports = []
        for (const share of moments) {
          const { state, stats } = await pollImport(
            client,
            id,
            (view) => hasEnded(view.state) || view.stats.records_imported >= share * rows,
          )
          say(`a small import comes; the giant is ${state}, at ${whole(stats.records_imported)} rows`)
          const small = await (await prepareSmallImport(client, seed + 1))()
          await pollImport(client, small.id)
          smallImports.push(small)
        }
        return { view: await pollImport(client, id), smallImports }
      },
    })
    const { view, smallImports } = done
    const finished = { view, list, expected: dataset.expectedCounts(), leaves: dataset }
    const checked = await checkSmallImports(service, smallImports)
    const wrong =
      (await wrongImport(service, finished)) ??
      (await cameLate(service, view.id, smallImports.at(-1)!.id)) ??
      checked.wrong
    return {
      ...work,
      times: { 'small imports': checked.milliseconds },
      wrong,
    }
  },
})

/** A small import that begins after the giant's end proves nothing. */
async function cameLate({ database }: Service, giantId: number, smallId: number): Promise<string | null> {
  const { imports } = database.collections
  const giant = await imports.findOne({ _id: giantId })
  const overlaps =
    giant?.finished_at && (await imports.findOne({ _id: smallId, begins_at: { $lt: giant.finished_at } }))
  return overlaps ? null : 'the giant had ended before the last small import began: take more --rows'
}
