import type { Collection, Document } from 'mongodb'

/** What is read of a collection, and the type of its rows. */
interface Read<Row> {
  collection: Collection<never>
  pipeline: Document[]
  rows: Row[]
}

/** The documents that come out of a pipeline. The caller says their type where the pipeline changes it. */
// The pipeline decides the rows, and its type doesn't tell.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export const read = <Stored extends Document, Row = Stored>(
  collection: Collection<Stored>,
  pipeline: Document[],
): Read<NoInfer<Row>> => ({ collection: collection as unknown as Collection<never>, pipeline, rows: [] })

/**
 * Reads several collections in one command, one after the other, so that what comes later is at least as new. Resolves to
 * the rows of each. `hint` is the index of the first.
 */
export async function readTogether<Reads extends Record<string, Read<unknown>>>(
  reads: Reads,
  { hint }: { hint?: Document } = {},
): Promise<{ [Name in keyof Reads]: Reads[Name]['rows'] }> {
  const [first, ...others] = Object.entries(reads).map(([name, { collection, pipeline }]) => ({
    collection,
    pipeline: [...pipeline, { $replaceWith: { read: { $literal: name }, row: '$$ROOT' } }],
  }))
  const unions = others.map(({ collection, pipeline }) => ({
    $unionWith: { coll: collection.collectionName, pipeline },
  }))
  const found = Object.fromEntries(Object.keys(reads).map((name) => [name, [] as unknown[]]))
  const rows = first!.collection.aggregate<{ read: string; row: unknown }>([...first!.pipeline, ...unions], {
    batchSize: rowsPerReply,
    ...(hint === undefined ? {} : { hint }),
  })
  for await (const { read: name, row } of rows) found[name]!.push(row)
  return found as { [Name in keyof Reads]: Reads[Name]['rows'] }
}

/** More come in further replies. */
const rowsPerReply = 2_000
