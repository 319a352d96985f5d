import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { ApiClient } from '../../control-plane/cli/api-client.ts'
import { openDatabase } from '../../shared/database.ts'
import { wrongImport } from '../contenders/check-import.ts'
import { createList, importEnd } from '../contenders/installation.ts'
import { writeSubscriberFile, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { keptFiles, largeFile, runPartners, type PartnersReport } from '../partners/partners.ts'
import { startRollcall, type Rollcall } from '../rollcall.ts'
import type { Goal, Study, StudyOptions } from '../scenario.ts'
import { spread } from '../statistics.ts'
import { watchProcess } from '../watch-process.ts'

/**
 * Partners upload large files, all at once, while an import runs; another one uploads small files meanwhile, and it is
 * their time that counts. Each round has a service of its own, its files are compared byte by byte.
 */
export const ftpUploads: Study = {
  name: 'ftp-uploads',
  summary:
    '20 partners upload 100 MB each while an import runs, and one more small files; plain and with TLS',
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
    for (const tls of [false, true]) say(summary(measured, tls))
    const goals = [false, true].flatMap((tls) => goalsOf(measured, tls))
    for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
    return {
      isRight: measured.every(({ isRight }) => isRight),
      result: { rows, partners, megabytes, measured },
      goals,
    }
  },
}

const partners = 20
const megabytes = 100
const mostSmallMs = 1_000
const mostMemoryMB = 300

interface Work extends StudyOptions {
  file: string
  dataset: SubscriberFile
}

interface Round {
  tls: boolean
  isRight: boolean
  megabytesPerSecond: number
  smallMs: { median: number; p99: number; slowest: number; count: number }
  keptMs: { median: number; p99: number; slowest: number; count: number }
  memoryMB: number
  /** Of the FTP server. */
  cpuSeconds: number
  loadAverage: number
}

async function runRound(work: Work, tls: boolean, name: string): Promise<Round> {
  const folder = path.join(work.folder, name)
  await mkdir(path.join(folder, 'data', 'uploads', '1'), { recursive: true })
  await copyFile(work.file, path.join(folder, 'data', 'uploads', '1', 'rows.csv'))
  const certificate = await makeCertificate(folder)
  const service = await startRollcall({ folder, settings: tls ? certificate : {} })
  const client = new ApiClient(service.ready.http, service.key)
  const database = await openDatabase({ uri: service.ready.mongodb, name: 'rollcall' })
  try {
    const accounts: Account[] = []
    for (let i = 0; i <= partners; i += 1) accounts.push(await makeAccount(client, i))
    const [small, ...large] = accounts as [Account, ...Account[]]
    const ftp = new URL(service.ready.ftp)
    const watch = await watchProcess(service.ready.metrics['ftp']!)
    const list = await createList(client, 'bench', work.dataset)
    const importId = await startImport(client, list.listId, work.dataset)
    const report = await runPartners({
      host: ftp.hostname,
      port: Number(ftp.port),
      tls,
      keys: large.map(({ key }) => key),
      smallKey: small.key,
      megabytes,
      seed: work.seed,
    })
    const { peakMemoryMB, cpuSeconds } = await watch.stop()
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
      megabytesPerSecond: (partners * megabytes) / report.seconds,
      smallMs: figures(report.smallMs),
      keptMs: figures(report.keptMs),
      memoryMB: peakMemoryMB,
      cpuSeconds,
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

function figures(values: number[]) {
  const sorted = [...values].sort((a, b) => a - b)
  return {
    median: spread(sorted).median,
    p99: sorted[Math.ceil(sorted.length * 0.99) - 1]!,
    slowest: sorted.at(-1)!,
    count: sorted.length,
  }
}

const shown = ({ median, slowest, count }: Round['smallMs']) =>
  `${Math.round(median)} ms, at most ${Math.round(slowest)} (${count})`

function describe(round: Round): string {
  const { tls, megabytesPerSecond, smallMs, keptMs, memoryMB, cpuSeconds, loadAverage, isRight } = round
  return [
    tls ? 'TLS  ' : 'plain',
    `${Math.round(megabytesPerSecond)} MB/s`,
    `1 kB with login ${shown(smallMs)}`,
    `1 kB in a session ${shown(keptMs)}`,
    `memory ${Math.round(memoryMB)} MB`,
    `CPU ${((cpuSeconds * 1000) / (partners * megabytes)).toFixed(1)} ms a MB`,
    `load ${loadAverage.toFixed(1)}`,
    ...(isRight ? [] : ['WRONG RESULT']),
  ].join('; ')
}

/** The times by the median over the rounds, memory by the most. */
function goalsOf(rounds: Round[], tls: boolean): Goal[] {
  const own = rounds.filter((round) => round.tls === tls)
  const how = tls ? 'with TLS' : 'plain'
  const times = (what: string, p99: number[]): Goal => {
    const measured = spread(p99)
    const shown = `${Math.round(measured.median)} ms (${Math.round(measured.least)} to ${Math.round(measured.most)})`
    return {
      what: `1 kB ${what}, ${how}: p99 ${shown}, under ${mostSmallMs} ms`,
      isMet: measured.median < mostSmallMs,
      measured,
    }
  }
  const memory = spread(own.map(({ memoryMB }) => memoryMB))
  return [
    times(
      'with login',
      own.map(({ smallMs }) => smallMs.p99),
    ),
    times(
      'in a session',
      own.map(({ keptMs }) => keptMs.p99),
    ),
    {
      what: `memory of the FTP server, ${how}: at most ${Math.round(memory.most)} MB, under ${mostMemoryMB} MB`,
      isMet: memory.most < mostMemoryMB,
      measured: memory,
    },
  ]
}

function summary(rounds: Round[], tls: boolean): string {
  const own = rounds.filter((round) => round.tls === tls)
  const p99 = spread(own.map(({ smallMs }) => smallMs.p99))
  const speed = spread(own.map(({ megabytesPerSecond }) => megabytesPerSecond))
  const range = ({ median, least, most }: typeof p99) =>
    `${Math.round(median)} (${Math.round(least)} to ${Math.round(most)})`
  const memory = Math.max(...own.map(({ memoryMB }) => memoryMB))
  return `${tls ? 'TLS' : 'plain'}: ${range(speed)} MB/s; p99 of a 1 kB upload ${range(p99)} ms; memory at most ${Math.round(memory)} MB`
}
