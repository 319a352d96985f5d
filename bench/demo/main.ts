import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import type { ImportView } from '../../control-plane/resources/subscriber-imports/schemas.ts'
import { watchImport } from '../../control-plane/cli/watch.ts'
import type { ImportCounts } from '../../shared/contract/schemas/import.ts'
import { wrongCounts } from '../check-import.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, startImport, uploaded } from '../imports.ts'
import { exitAfter, interrupted } from '../interrupt.ts'
import { alignColumns, whole } from '../report/text.ts'
import { uploadByFtp, withService, type Service } from '../service.ts'

/**
 * Starts the whole service in a temporary folder, makes a file with known defects, and imports it inline, by FTP and
 * from a URL. The counts of the three imports are compared with those that the generator knows.
 */
const { values } = parseArgs({
  options: { rows: { type: 'string', default: '100000' }, keep: { type: 'boolean', default: false } },
})
const rows = Number(values.rows)
if (!Number.isSafeInteger(rows) || rows < 1) {
  console.error(`--rows must be a positive integer, not ${values.rows}`)
  process.exit(2)
}

await exitAfter('rollcall-demo-', (folder) => {
  console.log(`Starting Rollcall in ${folder}`)
  const options = {
    folder,
    settings: { URL_IMPORT_ALLOW: '127.0.0.1' },
    key: randomBytes(16).toString('hex'),
    onNews: (text: string) => console.log(`  ${text}`),
  }
  return withService(options, async (service) => {
    const isRight = await show(service, folder)
    if (!values.keep) return isRight ? 0 : 1
    process.exitCode = isRight ? 0 : 1
    console.log('\nRollcall stays up; Ctrl-C ends it and removes its folder.')
    return new Promise(() => undefined)
  })
})

type Result = ImportView & { title: string; seconds: number }

async function show(service: Service, folder: string): Promise<boolean> {
  const { client, url, key, ready, logFile } = service
  const file = path.join(folder, 'subscribers.csv')
  const dataset = new SubscriberFile({ rows, seed: 1 })
  await pipeline(Readable.from(dataset.bytes()), createWriteStream(file))
  console.log(
    `Made ${whole(rows)} rows with duplicates, bad emails, bad dates, quoted line breaks and non-ASCII names: ${file}\n`,
  )
  const run = async (title: string, file_source: object): Promise<Result> => {
    const { listId } = await createList(client, `Demo, ${title}`)
    const startedAt = performance.now()
    const id = await startImport(client, listId, { file_source })
    const watched = { title, expectedRows: rows, out: process.stdout, signal: interrupted }
    const view = await watchImport(client, id, watched)
    if (view.error_message !== null) console.log(`  ${view.error_message}`)
    return { ...view, title, seconds: (performance.now() - startedAt) / 1000 }
  }
  const inline = await run('inline', { type: 'json', content: await readFile(file, 'utf8') })
  await uploadByFtp(service, file, 'subscribers.csv')
  const byFtp = await run('FTP', uploaded('subscribers.csv'))
  const server = createServer((_request, response) => void createReadStream(file).pipe(response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const byUrl = await run('URL', { type: 'url', url: `http://127.0.0.1:${port}/subscribers.csv` })
  server.close()

  const isRight = compare([inline, byFtp, byUrl], dataset.expectedCounts())
  console.log(`
Console   ${url}/console/   (API key ${key})
API       ${url}/svc/api/v2   (user api, password ${key})
Docs      ${url}/docs/
FTP       ${ready.ftp}   (the same user and password)
Metrics   ${Object.values(ready.metrics).join('  ')}
MongoDB   ${ready.mongodb}   (the password is in ${ready.mongodb_password_file})
Log       ${logFile}${values.keep ? '' : '   (removed with the folder when the demo ends; --keep keeps everything up)'}`)
  return isRight
}

/** Prints the counts side by side; true when all three are those of the generator. */
function compare(results: Result[], expected: ImportCounts): boolean {
  const counts = results.map(({ stats }): Record<string, number> => stats.subscribers)
  const table = Object.entries(expected)
    .map(([kind, right = 0]) => [kind, [...counts.map((of) => of[kind] ?? 0), right]] as const)
    .filter(([, values]) => values.some((value) => value > 0))
  const rates = results.map(({ seconds }) => whole(rows / seconds))
  const lines = [
    ['', ...results.map(({ title }) => title), 'expected'],
    ...table.map(([kind, values]) => [kind, ...values.map(whole)]),
    ['rows/s', ...rates, ''],
  ]
  console.log(['', ...alignColumns(lines)].join('\n'))
  const isRight = results.every((view) => wrongCounts(view, expected) === null)
  console.log(
    isRight
      ? '\nAll three are equal, and equal to what the generator knows.'
      : '\nThe counts DIFFER: this is a defect.',
  )
  return isRight
}
