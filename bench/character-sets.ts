import { SubscriberFile } from './datasets/subscriber-file.ts'
import { exitAfter } from './interrupt.ts'
import { createList, importSeconds, pollImport, startImport, uploaded } from './imports.ts'
import { alternate } from './round-order.ts'
import { withService, type Service } from './service.ts'
import { spread } from './statistics.ts'

/**
 * The same rows as a file in each character set, imported in alternating rounds: rows/s from `begins_at` to
 * `finished_at`. Names that a set lacks are left without their accents.
 * `node bench/character-sets.ts [ROWS] [ROUNDS]`
 */
const [rows = 200_000, rounds = 4] = process.argv.slice(2).map(Number)
/** Without the letters that ISO-8859-1 lacks. */
const plain = (text: string): string => text.normalize('NFC').replaceAll(/[^\0-\xff]/g, '?')
const latin1 = (text: string): Buffer => Buffer.from(plain(text), 'latin1')
const encoders = {
  'utf-8': (text: string) => Buffer.from(text),
  'iso-8859-1': latin1,
  'windows-1252': latin1,
  'utf-16le': (text: string) => Buffer.from(text, 'utf16le'),
  'utf-16be': (text: string) => Buffer.from(text, 'utf16le').swap16(),
  gbk: (text: string) => Buffer.from(plain(text).replaceAll(/[^\0-\x7f]/g, '?')),
}
type CharacterSet = keyof typeof encoders
const sets = Object.keys(encoders) as CharacterSet[]

async function importRate(service: Service, file: SubscriberFile, set: CharacterSet): Promise<number> {
  const { listId } = await createList(service.client, `${set} ${performance.now()}`, file)
  const request = { file_source: uploaded(`${set}.csv`), file_format: { character_set: set } }
  const id = await startImport(service.client, listId, file, request)
  const view = await pollImport(service.client, id)
  if (view.state !== 'finished') throw new Error(`${set}: ${view.state} ${view.error_message}`)
  const rate = rows / (await importSeconds(service.database, id))
  console.log(`${set.padEnd(12)} ${rate.toFixed(0)} rows/s`)
  return rate
}

await exitAfter('rollcall-bench-', (folder) =>
  withService({ folder }, async (service) => {
    const file = new SubscriberFile({ rows, seed: 1 })
    const text = [...file.text()].join('')
    for (const set of sets) await service.place([encoders[set](text)], `${set}.csv`)
    await importRate(service, file, 'utf-8')
    const rates = await alternate(sets, rounds, (set) => importRate(service, file, set))
    const base = spread(rates['utf-8']).median
    for (const set of sets) {
      const { median } = spread(rates[set])
      const share = (median / base).toFixed(2)
      console.log(`${set.padEnd(12)} median ${median.toFixed(0)} rows/s, ${share} of UTF-8's`)
    }
    return 0
  }),
)
