import type { ApiClient } from '../../control-plane/cli/api-client.ts'
import type { ImportView } from '../../control-plane/resources/subscriber-imports/schemas.ts'
import { wrongImport } from '../check-import.ts'
import { onServices } from '../compare.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, type List } from '../imports.ts'
import { measure } from '../measure.ts'
import type { Service } from '../service.ts'

export const smallRows = 500
const maxLanes = 16

/** Shows what an import costs beside its rows: 500 rows take little of its time. */
export const manySmall = onServices({
  name: 'many-small',
  summary: `imports of ${smallRows} rows, each of another organization, one after the other and ${maxLanes} side by side: from begins_at to finished`,
  quick: ['--rows', '10000', '--rounds', '2'],
  defaultRows: 100_000,
  kinds: ['one after the other', 'side by side'],
  timesOf: `an import of ${smallRows} rows`,
  prepare: async ({ rows, seed }) => Array.from({ length: Math.ceil(rows / smallRows) }, (_, i) => seed + i),
  async measure(service, seeds, { kind }) {
    const prepare = (some: number[]) =>
      inLanes(maxLanes, some, (seed) => prepareSmallImport(service.client, seed))
    const run = (prepared: (() => Promise<SmallImport>)[], lanes: number) =>
      inLanes(lanes, prepared, (one) => one())
    // New processes compile their code during the first imports, so these aren't measured.
    await run(await prepare(seeds.slice(0, maxLanes)), maxLanes)
    const prepared = await prepare(seeds)
    const { done, ...imports } = await measure(service.database.client, {
      processes: service.processes,
      rows: seeds.length * smallRows,
      do: () => run(prepared, kind === 'side by side' ? maxLanes : 1),
    })
    const { milliseconds, wrong } = await checkSmallImports(service, done)
    return { ...imports, times: { each: milliseconds }, wrong }
  },
})

interface SmallImport {
  view: ImportView
  list: List
  file: SubscriberFile
}

/** The times of all, from `begins_at` to `finished_at`, and the first wrong result. */
export async function checkSmallImports(service: Service, imports: SmallImport[]) {
  const milliseconds: number[] = []
  for (const { view, list, file } of imports) {
    const expected = { added: smallRows }
    const wrong = await wrongImport(service, { view, list, expected, leaves: file })
    if (wrong !== null) return { milliseconds, wrong }
    milliseconds.push((await importSeconds(service.database, view.id)) * 1000)
  }
  return { milliseconds, wrong: null }
}

/** Resolves to a function that imports 500 rows into a list of an organization of its own. */
export async function prepareSmallImport(
  client: ApiClient,
  seed: number,
): Promise<() => Promise<SmallImport>> {
  const file = new SubscriberFile({ rows: smallRows, seed, defects: false })
  const organization = { organization: { name: 'Small' } }
  const { id } = await client.post<{ id: number }>('/organizations', organization)
  const list = await createList(client, 'Small', { organizationId: id })
  const source = { type: 'json', content: [...file.text()].join('') }
  return async () => {
    const id = await startImport(client, list.listId, { file_source: source })
    return { view: await pollImport(client, id), list, file }
  }
}

/** Each lane takes the next item when it is done with one. */
async function inLanes<T, R>(lanes: number, items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  const remaining = items.values()
  const lane = async () => {
    for (const item of remaining) done.push(await work(item))
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}
