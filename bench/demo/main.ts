import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { Client as FtpClient } from 'basic-ftp'
import { ApiClient, type ImportView } from '../../control-plane/cli/api-client.ts'
import { watchImport } from '../../control-plane/cli/watch.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { ImportCounts } from '../../shared/contract/schemas/import.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, startImport, uploaded } from '../imports.ts'
import { startRollcall, type Rollcall } from '../rollcall.ts'

/**
 * Starts the whole service in a temporary folder, makes a file with known defects, and imports it inline, by FTP and
 * from a URL. The counts of the three imports are compared with those that the generator knows.
 */
const { values: options } = parseArgs({
  options: { rows: { type: 'string', default: '100000' }, keep: { type: 'boolean', default: false } },
})
const rows = Number(options.rows)
if (!Number.isSafeInteger(rows) || rows < 1) {
  console.error(`--rows must be a positive integer, not ${options.rows}`)
  process.exit(2)
}

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort())

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-demo-'))
let rollcall: Rollcall | null = null
let exitCode = 1
try {
  say(`Starting Rollcall in ${folder}`)
  rollcall = await startRollcall({
    folder,
    settings: { URL_IMPORT_ALLOW: '127.0.0.1' },
    onNews: (text) => say(`  ${text}`),
    signal: interrupted.signal,
  })
  exitCode = await show(rollcall)
  if (options.keep) {
    say('\nRollcall stays up; Ctrl-C ends it and removes its folder.')
    await new Promise((resolve) => interrupted.signal.addEventListener('abort', resolve, { once: true }))
  }
} catch (error) {
  if (!interrupted.signal.aborted) console.error(errorMessage(error))
  else exitCode = 130
} finally {
  await rollcall?.stop()
  await rm(folder, { recursive: true, force: true })
}
process.exit(exitCode)

function say(text: string): void {
  console.log(text)
}

async function show({ ready, key, logFile }: Rollcall): Promise<number> {
  const file = path.join(folder, 'subscribers.csv')
  const dataset = new SubscriberFile({ rows, seed: 1 })
  await pipeline(Readable.from(dataset.bytes()), createWriteStream(file))
  say(
    `Made ${rows.toLocaleString('en')} rows with duplicates, bad emails, bad dates, quoted line breaks and non-ASCII names: ${file}\n`,
  )

  const client = new ApiClient(ready.http, key)
  const results = new Map<string, ImportView & { seconds: number }>()
  const run = async (title: string, source: () => Promise<object>) => {
    const { listId } = await createList(client, `Demo, ${title}`, dataset)
    const file_source = await source()
    const startedAt = performance.now()
    const id = await startImport(client, listId, dataset, { file_source })
    const view = await watchImport(client, id, {
      title,
      expectedRows: rows,
      out: process.stdout,
      signal: interrupted.signal,
    })
    results.set(title, { ...view, seconds: (performance.now() - startedAt) / 1000 })
    if (view.error_message !== null) say(`  ${view.error_message}`)
  }
  await run('inline', async () => ({ type: 'json', content: await readFile(file, 'utf8') }))
  await run('FTP', async () => uploaded(await uploadByFtp(ready.ftp, key, file)))
  const server = await serveFile(file)
  await run('URL', async () => ({ type: 'url', url: `${server.url}/subscribers.csv` }))
  server.close()
  await client.close()

  const isRight = compare(results, dataset.expectedCounts())
  say(
    [
      '',
      `API       ${ready.http}/svc/api/v2   (user api, password ${key})`,
      `Docs      ${ready.http}/docs/`,
      `FTP       ${ready.ftp}   (the same user and password)`,
      `Metrics   ${Object.values(ready.metrics).join('  ')}`,
      `MongoDB   ${ready.mongodb}   (the password is in ${ready.mongodb_password_file})`,
      `Log       ${logFile}${options.keep ? '' : '   (removed with the folder when the demo ends; --keep keeps everything up)'}`,
    ].join('\n'),
  )
  return isRight ? 0 : 1
}

async function uploadByFtp(ftpUrl: string, key: string, file: string): Promise<string> {
  const url = new URL(ftpUrl)
  const ftp = new FtpClient()
  try {
    await ftp.access({ host: url.hostname, port: Number(url.port), user: 'api', password: key })
    await ftp.uploadFrom(file, 'subscribers.csv')
  } finally {
    ftp.close()
  }
  return 'subscribers.csv'
}

async function serveFile(file: string): Promise<{ url: string; close: () => void }> {
  const server = createServer((_request, response) => {
    createReadStream(file).pipe(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

/** Prints the counts side by side; true when all three are those of the generator. */
function compare(results: Map<string, ImportView & { seconds: number }>, expected: ImportCounts): boolean {
  const views = [...results.values()]
  const row = (name: string, values: (string | number)[]) => {
    const cells = values.map((value) => (typeof value === 'number' ? value.toLocaleString('en') : value))
    say(`${name.padEnd(20)}${cells.map((cell) => cell.padStart(12)).join('')}`)
  }
  say('')
  row('', [...results.keys(), 'expected'])
  let isRight = views.every(({ state, stats }) => state === 'finished' && stats.records_imported === rows)
  for (const [kind, count = 0] of Object.entries(expected)) {
    const counts = views.map(({ stats }) => stats.subscribers[kind] ?? 0)
    if (counts.some((value) => value !== count)) isRight = false
    if (count > 0 || counts.some((value) => value > 0)) row(kind, [...counts, count])
  }
  row(
    'rows/s',
    views.map(({ seconds }) => Math.round(rows / seconds)),
  )
  say(
    isRight
      ? '\nAll three are equal, and equal to what the generator knows.'
      : '\nThe counts DIFFER: this is a defect.',
  )
  return isRight
}
