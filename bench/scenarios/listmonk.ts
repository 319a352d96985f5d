import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { attributesOf, listmonkPeer } from '../peers/listmonk.ts'
import type { Comparison } from '../scenario.ts'

/** What users of another mailing list program get on the same machine. */
export const listmonk: Comparison = {
  name: 'listmonk',
  summary: 'new rows, against listmonk, which imports them into PostgreSQL',
  defaultRows: 100_000,
  quick: false,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context)
    const other = path.join(context.folder, 'listmonk.csv')
    await pipeline(Readable.from(listmonkText(dataset)), createWriteStream(other))
    return [
      rollcallImport(context, { name: 'rollcall', dataset, file }),
      ...(await listmonkPeer(context, { dataset, file: other })),
    ]
  },
}

/** The same rows in the columns that it knows; `attributes` is JSON, enclosed, its quotes doubled. */
function* listmonkText(dataset: SubscriberFile): Generator<string> {
  let piece = 'email,name,attributes\n'
  for (let row = 0; row < dataset.rows; row += 1) {
    const { email, name, attributes } = attributesOf(dataset, row)
    piece += `${email},${name},"${JSON.stringify(attributes).replaceAll('"', '""')}"\n`
    if (piece.length < 256 * 1024) continue
    yield piece
    piece = ''
  }
  yield piece
}
