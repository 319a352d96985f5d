import { wrongCounts } from '../check-import.ts'
import { onServices } from '../compare.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'

/** Without the letters that a set lacks. */
const plain = (text: string, lacking: RegExp): string => text.normalize('NFC').replaceAll(lacking, '?')
const latin1 = (text: string): Buffer => Buffer.from(plain(text, /[^\0-\xff]/g), 'latin1')
const encoders: Record<string, (text: string) => Buffer> = {
  'utf-8': (text) => Buffer.from(text),
  'iso-8859-1': latin1,
  'windows-1252': latin1,
  'utf-16le': (text) => Buffer.from(text, 'utf16le'),
  'utf-16be': (text) => Buffer.from(text, 'utf16le').swap16(),
  gbk: (text) => Buffer.from(plain(text, /[^\0-\x7f]/g)),
}

export const characterSets = onServices({
  name: 'character-sets',
  summary: 'the same new rows as a file in each character set',
  quick: ['--rows', '50000', '--rounds', '1'],
  defaultRows: 200_000,
  kinds: Object.keys(encoders),
  prepare: async ({ rows, seed }) => new SubscriberFile({ rows, seed }),
  async measure({ client, database, processes, place }, file, { kind, rows }) {
    await place([encoders[kind]!([...file.text()].join(''))], 'rows.csv')
    const importFile = async () => {
      const { listId } = await createList(client, `${kind} ${performance.now()}`)
      const request = { file_source: uploaded('rows.csv'), file_format: { character_set: kind } }
      return pollImport(client, await startImport(client, listId, request))
    }
    // New processes compile their code during the first import, so this isn't measured.
    await importFile()
    const { done: view, ...work } = await measure(database.client, { processes, rows, do: importFile })
    const expected = file.expectedCounts()
    const wrong = wrongCounts(view, expected)
    return { ...work, seconds: wrong === null ? await importSeconds(database, view.id) : work.seconds, wrong }
  },
})
