import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { ApiClient, type ImportView } from '../../control-plane/cli/api-client.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { wrongImport } from '../contenders/check-import.ts'
import { createList, importEnd } from '../contenders/installation.ts'
import { writeSubscriberFile, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { describePeaks, highestOf, peaksOf } from '../load/cost.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { keptFiles, largeFile, runPartners, type PartnersReport } from '../partners/partners.ts'
import { measuredProcess, metric } from '../processes.ts'
import { whole, withRange } from '../report/text.ts'
import { startRollcall, type Rollcall } from '../rollcall.ts'
import type { Goal, Measured, Study, StudyOptions, Timeline } from '../scenario.ts'
import { latencyOf, spread, type Spread } from '../statistics.ts'

/**
 * Partners upload large files, all at once, while an import runs; another one uploads small files meanwhile, and it is
 * their time that counts. Each round has a service of its own, its files are compared byte by byte.
 */
export const ftpUploads: Study = {
  name: 'ftp-uploads',
  summary:
    '20 partners upload 100 MB each while an import runs, and one more small files; plain and with TLS',
  quick: ['--rows', '100000', '--rounds', '1'],
  async run(options) {
    const { say, rounds, seed, rows: given, folder } = options
    const rows = given ?? 300_000
    const { dataset, file } = await writeSubscriberFile({ rows, seed, folder, say })
    const work = { ...options, file, dataset }
    const measured: Round[] = []
    for (let round = 0; round < rounds; round += 1)
      for (const tls of round % 2 === 0 ? [false, true] : [true, false]) {
        const result = await runRound(work, tls, `${round}-${tls ? 'tls' : 'plain'}`)
        measured.push(result)
        say(describe(result))
      }
    const kinds = [false, true].map((tls) => {
      const own = measured.filter((round) => round.tls === tls)
      return { name: tls ? 'TLS' : 'plain', own, figures: statsOf(own) }
    })
    for (const { name, own, figures } of kinds)
      say(
        `${summary(name, figures)}; ${describePeaks(highestOf(own.map(({ processes }) => peaksOf(processes))))}`,
      )
    const goals = kinds.flatMap(({ name, figures }) => goalsOf(name, figures))
    for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
    return {
      isRight: measured.every(({ isRight }) => isRight),
      result: {
        mongodb: measured[0]!.mongodb,
        rows,
        partners,
        megabytes,
        ...Object.fromEntries(kinds.map(({ name, figures }) => [name, figures])),
        measured: measured.map(({ timeline: _, smallMs, keptMs, ...round }) => ({
          ...round,
          smallMs: timesOf(smallMs),
          keptMs: timesOf(keptMs),
        })),
      },
      goals,
      latencies: kinds.flatMap(({ name, own }) => [
        {
          name: `${name}, connection and login for each`,
          ...latencyOf(
            'an upload of 1 kB',
            own.flatMap(({ smallMs }) => smallMs),
          ),
        },
        {
          name: `${name}, in one session`,
          ...latencyOf(
            'an upload of 1 kB',
            own.flatMap(({ keptMs }) => keptMs),
          ),
        },
      ]),
      timelines: kinds.map(({ name, own }) => ({
        name,
        of: 'MB',
        rounds: own.map(({ timeline }) => timeline),
      })),
    }
  },
}

const partners = 20
const megabytes = 100
const maxSmallMs = 1_000
const maxMemoryMB = 300

interface Work extends StudyOptions {
  file: string
  dataset: SubscriberFile
}

interface Round {
  tls: boolean
  isRight: boolean
  mongodb: string
  megabytesPerSecond: number
  /** Of each upload with a connection of its own, and within one session. */
  smallMs: number[]
  keptMs: number[]
  /** CPU and memory while the partners uploaded. */
  processes: Measured['processes']
  /** Meanwhile. */
  importedRows: number
  timeline: Timeline
  loadAverage: number
}

async function runRound(work: Work, tls: boolean, name: string): Promise<Round> {
  const folder = path.join(work.folder, name)
  await mkdir(path.join(folder, 'data', 'uploads', '1'), { recursive: true })
  await copyFile(work.file, path.join(folder, 'data', 'uploads', '1', 'rows.csv'))
  const certificate = await makeCertificate(folder)
  const service = await startRollcall({ folder, settings: tls ? certificate : {} })
  const client = new ApiClient(service.ready.http, service.key)
  const database = await openDatabase({ uri: service.mongodbUri, name: 'rollcall' })
  try {
    const accounts: Account[] = []
    for (let i = 0; i <= partners; i += 1) accounts.push(await makeAccount(client, i))
    const [small, ...large] = accounts as [Account, ...Account[]]
    const ftp = new URL(service.ready.ftp)
    const list = await createList(client, 'bench', work.dataset)
    const order = {
      host: ftp.hostname,
      port: Number(ftp.port),
      tls,
      keys: large.map(({ key }) => key),
      smallKey: small.key,
      megabytes,
      seed: work.seed,
    }
    const { ftp: ofFtp, engine, control_plane: controlPlane } = service.ready.metrics
    let uploaded = 0
    let done: { importId: number; report: PartnersReport; importedRows: number } | undefined
    const { processes, timeline } = await measure(database.client, partners * megabytes, {
      processes: [
        measuredProcess('FTP server', ofFtp!, (metrics) => {
          uploaded = metric(metrics, 'rollcall_ftp_bytes_total\\{direction="in"\\}') / 1e6
        }),
        measuredProcess('engine', engine!),
        measuredProcess('control plane', controlPlane!),
      ],
      progress: () => Math.min(uploaded, partners * megabytes),
      do: async () => {
        const importId = await startImport(client, list.listId, work.dataset)
        const report = await runPartners(order)
        const { stats } = await client.get<ImportView>(`/subscriber_imports/${importId}`)
        done = { importId, report, importedRows: stats.records_imported }
      },
    })
    const { importId, report, importedRows } = done!
    const view = await importEnd(client, importId)
    const wrong =
      (await wrongImport(
        { client, database },
        { view, list, expected: work.dataset.expectedCounts(), leaves: work.dataset },
      )) ??
      (await wrongLargeFiles(folder, large, report)) ??
      (await wrongSmallFiles(folder, small, report))
    if (wrong !== null) work.say(`WRONG RESULT: ${wrong}`)
    return {
      tls,
      isRight: wrong === null,
      mongodb: await serverVersion(database.client),
      megabytesPerSecond: (partners * megabytes) / report.seconds,
      smallMs: report.smallMs,
      keptMs: report.keptMs,
      processes,
      importedRows,
      timeline,
      loadAverage: loadavg()[0]!,
    }
  } finally {
    await client.close()
    await database.close()
    await end(service, folder)
  }
}

async function end(service: Rollcall, folder: string): Promise<void> {
  await service.stop()
  await rm(folder, { recursive: true, force: true })
}

/** Settings of a certificate that is made for the run. */
async function makeCertificate(folder: string): Promise<Record<string, string>> {
  const [key, certificate] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
  const days = ['-days', '2', '-subj', '/CN=localhost']
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate, ...days]
  await promisify(execFile)('openssl', made)
  return { FTP_TLS_CERT: certificate, FTP_TLS_KEY: key }
}

interface Account {
  organizationId: number
  key: string
}

async function makeAccount(client: ApiClient, number: number): Promise<Account> {
  const { id } = await client.post<{ id: number }>('/organizations', {
    organization: { name: `Partner ${number}` },
  })
  const { key } = await client.post<{ key: string }>(`/organizations/${id}/api_keys`, {
    api_key: { name: 'ftp' },
  })
  return { organizationId: id, key }
}

async function startImport(client: ApiClient, listId: number, { columns }: SubscriberFile): Promise<number> {
  const { id } = await client.post<{ id: number }>(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: columns,
      file_source: { type: 'upload_directory', filename: 'rows.csv' },
    },
  })
  return id
}

async function wrongLargeFiles(
  folder: string,
  accounts: Account[],
  { hashes }: PartnersReport,
): Promise<string | null> {
  for (const [i, account] of accounts.entries())
    if ((await hashOf(path.join(uploadsOf(folder, account), largeFile))) !== hashes[i])
      return `the file of partner ${i + 1} isn't what was uploaded`
  return null
}

async function wrongSmallFiles(
  folder: string,
  account: Account,
  { smallMs, keptMs, smallHash }: PartnersReport,
): Promise<string | null> {
  const uploads = uploadsOf(folder, account)
  const files = (await readdir(uploads)).filter((name) => name.endsWith('.csv'))
  const sent = smallMs.length + Math.min(keptMs.length, keptFiles)
  if (files.length !== sent) return `${files.length} small files are there, not ${sent}`
  for (const name of files)
    if ((await hashOf(path.join(uploads, name))) !== smallHash) return `${name} isn't what was uploaded`
  return null
}

const uploadsOf = (folder: string, { organizationId }: Account): string =>
  path.join(folder, 'data', 'uploads', String(organizationId))

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

function timesOf(values: number[]) {
  const sorted = [...values].sort((a, b) => a - b)
  return {
    median: spread(sorted).median,
    p99: sorted[Math.ceil(sorted.length * 0.99) - 1]!,
    slowest: sorted.at(-1)!,
    count: sorted.length,
  }
}

function describe(round: Round): string {
  const { tls, megabytesPerSecond, smallMs, keptMs, processes, loadAverage, isRight } = round
  const shown = (values: number[]) => {
    const { median, slowest, count } = timesOf(values)
    return `${Math.round(median)} ms, at most ${Math.round(slowest)} (${count})`
  }
  return [
    tls ? 'TLS  ' : 'plain',
    `${Math.round(megabytesPerSecond)} MB/s`,
    `1 kB with login ${shown(smallMs)}`,
    `1 kB in a session ${shown(keptMs)}`,
    describePeaks(peaksOf(processes)),
    `load ${loadAverage.toFixed(1)}`,
    ...(isRight ? [] : ['WRONG RESULT']),
  ].join('; ')
}

interface Figures {
  megabytesPerSecond: Spread
  /** CPU microseconds of the FTP server; the small files' are among them. */
  ftpMicrosecondsAMB: Spread
  /** CPU microseconds of what the import had done when the uploads ended; the server's hold the logins' too. */
  clientMicrosecondsARow: Spread
  serverMicrosecondsARow: Spread
  smallP99Ms: Spread
  keptP99Ms: Spread
  /** Highest resident memory of the FTP server. */
  memoryMB: Spread
}

function statsOf(rounds: Round[]): Figures {
  const over = (figure: (round: Round) => number) => spread(rounds.map(figure))
  const cpu = ({ processes }: Round, name: string) => processes[name]!.cpuSeconds * 1e6
  return {
    megabytesPerSecond: over((round) => round.megabytesPerSecond),
    ftpMicrosecondsAMB: over((round) => cpu(round, 'FTP server') / (partners * megabytes)),
    clientMicrosecondsARow: over(
      (round) => (cpu(round, 'engine') + cpu(round, 'control plane')) / round.importedRows,
    ),
    serverMicrosecondsARow: over((round) => cpu(round, 'mongod') / round.importedRows),
    smallP99Ms: over(({ smallMs }) => timesOf(smallMs).p99),
    keptP99Ms: over(({ keptMs }) => timesOf(keptMs).p99),
    memoryMB: over(({ processes }) => processes['FTP server']!.peakMemoryMB),
  }
}

function summary(name: string, figures: Figures): string {
  const shown = (figure: Spread) => withRange(figure, whole)
  return [
    `${name}: ${shown(figures.megabytesPerSecond)} MB/s`,
    `CPU of the FTP server ${shown(figures.ftpMicrosecondsAMB)} us a MB`,
    `of the import client ${shown(figures.clientMicrosecondsARow)} and server ${shown(figures.serverMicrosecondsARow)} us a row`,
  ].join('; ')
}

/** The times by the median over the rounds, memory by the most. */
function goalsOf(name: string, { smallP99Ms, keptP99Ms, memoryMB }: Figures): Goal[] {
  const times = (what: string, measured: Spread): Goal => ({
    what: `1 kB ${what}, ${name}: p99 ${withRange(measured, whole)} ms, under ${maxSmallMs} ms`,
    isMet: measured.median < maxSmallMs,
    measured,
  })
  return [
    times('with login', smallP99Ms),
    times('in a session', keptP99Ms),
    {
      what: `memory of the FTP server, ${name}: ${withRange(memoryMB, whole)} MB, each under ${maxMemoryMB} MB`,
      isMet: memoryMB.most < maxMemoryMB,
      measured: memoryMB,
    },
  ]
}
