import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import type { ApiClient, ImportView } from '../../control-plane/cli/api-client.ts'
import { wrongImport } from '../check-import.ts'
import { writeSubscriberFile, type WrittenFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import {
  largeFile,
  runPartners,
  sessionFiles,
  type FtpAccount,
  type LargeFiles,
  type SmallFiles,
} from '../partners/partners.ts'
import { measuredProcess, metric } from '../processes.ts'
import { describePeaks, whole, withRange } from '../report/text.ts'
import type { Goal, Measured, Options, Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { summarizeLatency, percentile, spread, summarize, type Spread } from '../statistics.ts'

const partners = 20
const megabytes = 100
const maxSmallMs = 1_000
const maxMemoryMB = 300

/** Partners upload large files, all at once, while an import runs. What counts is the time of small files meanwhile. */
export const ftpUploads: Scenario = {
  name: 'ftp-uploads',
  summary:
    '20 partners upload 100 MB each while an import runs, and one more small files; plain and with TLS',
  quick: ['--rows', '100000', '--rounds', '1'],
  async run(options) {
    const { rounds, say } = options
    const written = await writeSubscriberFile({ ...options, rows: options.rows ?? 300_000 })
    const measured: Round[] = []
    for (let round = 0; round < rounds; round += 1)
      for (const tls of round % 2 === 0 ? [false, true] : [true, false]) {
        const folder = path.join(options.folder, `${round}-${tls ? 'tls' : 'plain'}`)
        const one = await runRound(folder, tls, written, options)
        measured.push(one)
        say(describeRound(one))
        await rm(folder, { recursive: true, force: true })
      }
    const kinds = [false, true].map((tls) => {
      const rounds = measured.filter((round) => round.tls === tls)
      return { name: tls ? 'TLS' : 'plain', rounds, stats: computeStats(rounds) }
    })
    for (const { name, stats } of kinds) say(describeStats(name, stats))
    return {
      mongodb: measured[0]?.mongodb ?? '',
      rows: written.dataset.rows,
      isRight: measured.every(({ isRight }) => isRight),
      result: {
        partners,
        megabytes,
        ...Object.fromEntries(kinds.map(({ name, stats }) => [name, stats])),
      },
      goals: kinds.flatMap(({ name, stats }) => goalsFor(name, stats)),
      latencies: kinds.flatMap(({ name, rounds }) => {
        const latency = (pick: (round: Round) => number[]) =>
          summarizeLatency('an upload of 1 kB', rounds.flatMap(pick))
        return [
          { name: `${name}, connection and login for each`, ...latency(({ smallMs }) => smallMs) },
          { name: `${name}, in one session`, ...latency(({ sessionMs }) => sessionMs) },
        ]
      }),
      timelines: kinds.map(({ name, rounds }) => ({
        name,
        of: 'MB',
        rounds: rounds.map(({ uploads }) => uploads.timeline),
      })),
    }
  },
}

interface Round extends SmallFiles {
  tls: boolean
  isRight: boolean
  mongodb: string
  megabytesPerSecond: number
  /** All processes while the partners upload; a row is a MB. */
  uploads: Measured
  /** Rows that the import did meanwhile. */
  importedRows: number
}

async function runRound(
  folder: string,
  tls: boolean,
  written: WrittenFile,
  options: Options,
): Promise<Round> {
  await mkdir(folder, { recursive: true })
  const settings = tls ? await makeCertificate(folder) : {}
  return withService({ folder, settings }, (service) => measureRound(service, folder, tls, written, options))
}

async function measureRound(
  service: Service,
  folder: string,
  tls: boolean,
  { dataset, file }: WrittenFile,
  { seed, say }: Options,
): Promise<Round> {
  const { client, database, ftp, metrics, processes, place } = service
  await place(createReadStream(file), 'rows.csv')
  const server = { host: ftp.hostname, port: Number(ftp.port), tls }
  const account = async (name: string): Promise<Account> => ({
    ...server,
    ...(await createAccount(client, name)),
  })
  const small = await account('Partner with small files')
  const large: Account[] = []
  for (let i = 1; i <= partners; i += 1) large.push(await account(`Partner ${i}`))
  const list = await createList(client, 'bench', dataset)
  let uploadedMB = 0
  const ftpServer = measuredProcess('FTP server', metrics['ftp'], (text) => {
    uploadedMB =
      metric(text, `rollcall_ftp_bytes_total\\{protocol="${tls ? 'ftps' : 'ftp'}",direction="in"\\}`) / 1e6
  })
  const total = partners * megabytes
  const { done, ...uploads } = await measure(database.client, {
    processes: [ftpServer, ...processes],
    rows: total,
    progress: () => Math.min(uploadedMB, total),
    do: async () => {
      const id = await startImport(client, list.listId, dataset, { file_source: uploaded('rows.csv') })
      const files = await runPartners(large, small, { megabytes, seed })
      const { stats } = await client.get<ImportView>(`/subscriber_imports/${id}`)
      return { id, files, importedRows: stats.records_imported }
    },
  })
  const { id, files, importedRows } = done
  const view = await pollImport(client, id)
  const uploadsFolder = (organizationId: number) =>
    path.join(folder, 'data', 'uploads', String(organizationId))
  const wrong =
    (await wrongImport(service, { view, list, expected: dataset.expectedCounts(), leaves: dataset })) ??
    (await wrongLargeFiles(
      large.map(({ organizationId }) => uploadsFolder(organizationId)),
      files,
    )) ??
    (await wrongSmallFiles(uploadsFolder(small.organizationId), files))
  if (wrong !== null) say(`WRONG RESULT: ${wrong}`)
  const { seconds, smallMs, sessionMs, smallHash } = files
  return {
    tls,
    isRight: wrong === null,
    mongodb: await serverVersion(database.client),
    megabytesPerSecond: total / seconds,
    smallMs,
    sessionMs,
    smallHash,
    uploads,
    importedRows,
  }
}

/** Settings with a certificate that is made for the run. */
async function makeCertificate(folder: string): Promise<Record<string, string>> {
  const [key, certificate] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
  const days = ['-days', '2', '-subj', '/CN=localhost']
  const args = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate, ...days]
  await promisify(execFile)('openssl', args)
  return { FTP_TLS_CERT: certificate, FTP_TLS_KEY: key }
}

type Account = FtpAccount & { organizationId: number }

async function createAccount(client: ApiClient, name: string) {
  const { id } = await client.post<{ id: number }>('/organizations', { organization: { name } })
  const path = `/organizations/${id}/api_keys`
  const { key } = await client.post<{ key: string }>(path, { api_key: { name: 'ftp' } })
  return { organizationId: id, key }
}

async function wrongLargeFiles(folders: string[], { hashes }: LargeFiles): Promise<string | null> {
  for (const [i, folder] of folders.entries())
    if ((await hashFile(path.join(folder, largeFile))) !== hashes[i])
      return `the file of partner ${i + 1} isn't what was uploaded`
  return null
}

async function wrongSmallFiles(folder: string, { smallMs, sessionMs, smallHash }: SmallFiles) {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.csv'))
  const sent = smallMs.length + Math.min(sessionMs.length, sessionFiles)
  if (files.length !== sent) return `there are ${files.length} small files instead of ${sent}`
  for (const name of files)
    if ((await hashFile(path.join(folder, name))) !== smallHash) return `${name} isn't what was uploaded`
  return null
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

const p99 = (milliseconds: number[]): number =>
  percentile(
    [...milliseconds].sort((a, b) => a - b),
    0.99,
  )

function describeRound({ tls, megabytesPerSecond, smallMs, sessionMs, uploads, isRight }: Round): string {
  const times = (milliseconds: number[]) => {
    const { median, max } = spread(milliseconds)
    return `${whole(median)} ms, at most ${whole(max)} (${milliseconds.length})`
  }
  return [
    tls ? 'TLS  ' : 'plain',
    `${whole(megabytesPerSecond)} MB/s`,
    `1 kB with login ${times(smallMs)}`,
    `1 kB in a session ${times(sessionMs)}`,
    `peak memory in MB: ${describePeaks(summarize([uploads]).peak_memory_mb)}`,
    `load ${(loadavg()[0] ?? 0).toFixed(1)}`,
    ...(isRight ? [] : ['WRONG RESULT']),
  ].join('; ')
}

interface Stats {
  megabytesPerSecond: Spread
  /** CPU microseconds of the FTP server a MB; the small files' are included. */
  ftpMicrosecondsAMB: Spread
  /** CPU microseconds a row of what the import had done when the uploads ended; the server's include the logins. */
  clientMicrosecondsARow: Spread
  serverMicrosecondsARow: Spread
  smallP99Ms: Spread
  sessionP99Ms: Spread
  memoryMB: Spread
  peakMemoryMB: Record<string, number>
}

function computeStats(rounds: Round[]): Stats {
  const over = (pick: (round: Round) => number) => spread(rounds.map(pick))
  const cpu = ({ uploads }: Round, name: string) => (uploads.processes[name]?.cpuSeconds ?? 0) * 1e6
  return {
    megabytesPerSecond: over((round) => round.megabytesPerSecond),
    ftpMicrosecondsAMB: over((round) => cpu(round, 'FTP server') / round.uploads.rows),
    clientMicrosecondsARow: over(
      (round) => (cpu(round, 'engine') + cpu(round, 'control plane')) / round.importedRows,
    ),
    serverMicrosecondsARow: over((round) => cpu(round, 'mongod') / round.importedRows),
    smallP99Ms: over(({ smallMs }) => p99(smallMs)),
    sessionP99Ms: over(({ sessionMs }) => p99(sessionMs)),
    memoryMB: over(({ uploads }) => uploads.processes['FTP server']?.peakMemoryMB ?? Number.NaN),
    peakMemoryMB: summarize(rounds.map(({ uploads }) => uploads)).peak_memory_mb,
  }
}

function describeStats(name: string, stats: Stats): string {
  const show = (value: Spread) => withRange(value, whole)
  return [
    `${name}: ${show(stats.megabytesPerSecond)} MB/s`,
    `CPU of the FTP server ${show(stats.ftpMicrosecondsAMB)} us a MB`,
    `of the import client ${show(stats.clientMicrosecondsARow)} and server ${show(stats.serverMicrosecondsARow)} us a row`,
    `peak memory in MB: ${describePeaks(stats.peakMemoryMB)}`,
  ].join('; ')
}

/** Times are judged by the median of the rounds, memory by every round. */
function goalsFor(name: string, { smallP99Ms, sessionP99Ms, memoryMB }: Stats): Goal[] {
  const time = (what: string, measured: Spread): Goal => ({
    what: `1 kB ${what}, ${name}: p99 ${withRange(measured, whole)} ms, under ${maxSmallMs} ms`,
    isMet: measured.median < maxSmallMs,
    measured,
  })
  const shown = withRange(memoryMB, whole)
  return [
    time('with login', smallP99Ms),
    time('in a session', sessionP99Ms),
    {
      what: `memory of the FTP server, ${name}: ${shown} MB, each under ${maxMemoryMB} MB`,
      isMet: memoryMB.max < maxMemoryMB,
      measured: memoryMB,
    },
  ]
}
