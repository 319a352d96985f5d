import { SubscriberFile } from './datasets/subscriber-file.ts'
import { exitAfter } from './interrupt.ts'
import { createList, importSeconds, pollImport, startImport, uploaded } from './imports.ts'
import { roundOrder } from './round-order.ts'
import { withService, type Service } from './service.ts'

/**
 * The same rows as a file in each character set, imported in alternating rounds: rows/s from `begins_at` to
 * `finished_at`. Names that a set lacks are left without their accents.
 * `node bench/character-sets.ts [ROWS] [ROUNDS]`
 */
const [rows = 200_000, rounds = 4] = process.argv.slice(2).map(Number)
const encoders = {
  'utf-8': (text: string) => Buffer.from(text),
  'iso-8859-1': (text: string) => Buffer.from(plain(text), 'latin1'),
  'windows-1252': (text: string) => Buffer.from(plain(text), 'latin1'),
  'utf-16le': (text: string) => Buffer.from(text, 'utf16le'),
  'utf-16be': (text: string) => Buffer.from(text, 'utf16le').swap16(),
  gbk: (text: string) => Buffer.from(plain(text).replaceAll(/[^\0-\x7f]/g, '?')),
}
type CharacterSet = keyof typeof encoders
const sets = Object.keys(encoders) as CharacterSet[]

/** Without the letters that ISO-8859-1 lacks. */
const plain = (text: string): string => text.normalize('NFC').replaceAll(/[^\0-\xff]/g, '?')

async function importRate(service: Service, file: SubscriberFile, set: CharacterSet): Promise<number> {
  const { listId } = await createList(service.client, `${set} ${performance.now()}`, file)
  const file_source = uploaded(`${set}.csv`)
  const id = await startImport(service.client, listId, file, {
    file_source,
    file_format: { character_set: set },
  })
  const view = await pollImport(service.client, id)
  if (view.state !== 'finished') throw new Error(`${set}: ${view.state} ${view.error_message}`)
  return rows / (await importSeconds(service.database, id))
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN

await exitAfter('rollcall-bench-', (folder) =>
  withService({ folder }, async (service) => {
    const file = new SubscriberFile({ rows, seed: 1 })
    const text = [...file.text()].join('')
    for (const set of sets) await service.place([encoders[set](text)], `${set}.csv`)
    await importRate(service, file, 'utf-8')
    const rates = Object.fromEntries(sets.map((set) => [set, new Array<number>()]))
    for (let round = 0; round < rounds; round += 1)
      for (const set of roundOrder(sets, round, 1)) {
        const rate = await importRate(service, file, set)
        rates[set]?.push(rate)
        console.log(`${set.padEnd(12)} ${rate.toFixed(0)} rows/s`)
      }
    const base = median(rates['utf-8'] ?? [])
    for (const set of sets) {
      const rate = median(rates[set] ?? [])
      console.log(
        `${set.padEnd(12)} median ${rate.toFixed(0)} rows/s, ${(rate / base).toFixed(2)} of UTF-8's`,
      )
    }
    return 0
  }),
)
