import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { MongoClient, type Db } from 'mongodb'
import type { Test } from 'tap'
import { hasEnded } from '../../shared/contract/import-state.ts'
import { openCollections, type Collections } from '../../shared/contract/schemas/collections.ts'
import { killSessions } from '../../shared/store/leases.ts'
import { contractOf, type Contract } from './contract.ts'
import { wentOn } from './crash-at.ts'
import { present } from './present.ts'

/**
 * Starts Rollcall's processes as children, on free ports, with a database and a folder for the test; teardown removes
 * all.
 */

export type ProcessName = 'control-plane' | 'engine' | 'ftp'

export const bootstrapKey = 'test_bootstrap_key_0123456789'

/** The server that test/run.ts started. */
export function testMongodbUri(): string {
  const uri = process.env['ROLLCALL_TEST_MONGODB_URI']
  if (uri === undefined)
    throw new Error(
      'run the tests with `npm test`, or `npm run tap -- FILE` for one of them: it starts the MongoDB server that they need',
    )
  return uri
}

export interface RunningProcess {
  child: ChildProcess
  ready: {
    http?: string
    ftp?: string
    metrics: Record<string, string>
    mongodb: string
    mongodb_password_file: string | null
    api_key?: string | null
  }
  /** Everything it logged so far. */
  log: () => string
  stop: (signal?: NodeJS.Signals) => Promise<number | null>
}

export interface Service {
  dataFolder: string
  settings: Record<string, string>
  client: MongoClient
  db: Db
  collections: Collections
  /** The last one started of each kind. */
  processes: Partial<Record<ProcessName, RunningProcess>>
  start: (name: ProcessName, settings?: Record<string, string>) => Promise<RunningProcess>
  call: Call
  /** Calls and returns `data`; fails when the call does. */
  get: <T = Json>(path: string) => Promise<T>
  post: <T = Json>(path: string, body?: unknown) => Promise<T>
}

// Tests assert on replies, and an assertion says best what a reply must contain.
// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any

export interface Answer {
  status: number
  headers: Headers
  text: string
  body: Json
}

export type Call = (
  method: string,
  path: string,
  body?: unknown,
  /** A key of null sends no credential. */
  options?: { key?: string | null; headers?: Record<string, string> },
) => Promise<Answer>

export async function startService(
  t: Test,
  names: ProcessName[],
  settings: Record<string, string> = {},
): Promise<Service> {
  const dataFolder = await mkdtemp(path.join(tmpdir(), 'rollcall test ')) // a space, as paths have
  const database = `test_${randomBytes(6).toString('hex')}`
  const uri = settings['MONGODB_URI'] ?? testMongodbUri()
  const client = await MongoClient.connect(uri, { promoteBuffers: true, readConcern: { level: 'majority' } })
  const db = client.db(database)
  const collections = openCollections(db)
  const processes: Service['processes'] = {}
  const all: RunningProcess[] = []
  const everySetting: Record<string, string> = {
    MONGODB_URI: uri,
    MONGODB_DATABASE: database,
    DATA_DIR: dataFolder,
    ...freePorts,
    ENGINE_WORKERS: '1',
    BOOTSTRAP_API_KEY: bootstrapKey,
    URL_IMPORT_ALLOW: '127.0.0.1',
    AUTH_FAILURES_PER_MINUTE: '100000',
    ...settings,
  }
  t.teardown(async () => {
    await Promise.all(all.map((running) => running.stop()))
    // The open transaction of a killed process would keep the database from being dropped for 60 s and more.
    await killSessions(client, await sessionsOf(collections))
    await db.dropDatabase()
    await client.close()
    await rm(dataFolder, { recursive: true, force: true })
  })
  const start: Service['start'] = async (name, more = {}) => {
    const running = await startProcess(name, { ...everySetting, ...more })
    processes[name] = running
    all.push(running)
    return running
  }
  for (const name of names) await start(name)
  const call = callerOf(() => processes['control-plane']?.ready.http ?? '')
  const data = async (method: string, path: string, body?: unknown) => {
    const answer = await call(method, path, body)
    if (answer.body?.success !== true) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body.data
  }
  return {
    dataFolder,
    settings: everySetting,
    client,
    db,
    collections,
    processes,
    start,
    call,
    get: (path) => data('GET', path),
    post: (path, body) => data('POST', path, body),
  }
}

/** The sessions of the processes that are registered, those of killed ones too. */
async function sessionsOf({ engines, processes }: Collections): Promise<Uint8Array[]> {
  const registered = await Promise.all([engines.find().toArray(), processes.find().toArray()])
  return registered.flat().flatMap(({ session_ids }) => session_ids)
}

/** The URL of the API of the control plane that was started last. */
export const controlPlaneOrigin = ({ processes }: Pick<Service, 'processes'>): string =>
  present(processes['control-plane']?.ready.http, 'the URL of the API')

const mains: Record<ProcessName, string> = {
  'control-plane': 'control-plane/main.ts',
  engine: 'engine/main.ts',
  ftp: 'ftp/main.ts',
}

export async function startProcess(
  name: ProcessName,
  settings: Record<string, string>,
): Promise<RunningProcess> {
  const running = await startProgram(
    [fileURLToPath(new URL(`../../${mains[name]}`, import.meta.url))],
    settings,
  )
  if (running.ready === null)
    throw new Error(`${name} didn't start (exit code ${running.child.exitCode}):\n${running.log()}`)
  return { ...running, ready: running.ready }
}

/** The URI of a process's ready line, with the password of the embedded server. */
export async function wholeMongodbUri({ ready }: Pick<RunningProcess, 'ready'>): Promise<string> {
  const { mongodb, mongodb_password_file: file } = ready
  return file === null ? mongodb : mongodb.replace(':***@', `:${await readFile(file, 'utf8')}@`)
}

/** With these settings a process listens on free ports. */
export const freePorts = {
  HTTP_PORT: '0',
  FTP_PORT: '0',
  FTP_PASSIVE_PORTS: '0',
  ENGINE_METRICS_PORT: '0',
  FTP_METRICS_PORT: '0',
} as const

/** Programs of a test that ran out of time are ended with it. */
const alive = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL')
})

/** The environment that a program needs. The compile cache halves the time of its start. */
const ownEnvironment = {
  PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH']}`,
  HOME: process.env['HOME'],
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
}

/** Starts a program and waits for its ready line, or for its end without one. `said`: the lines of its standard output. */
export async function startProgram(
  args: string[],
  settings: Record<string, string>,
  options: { cwd?: string; program?: string } = {},
) {
  const child = spawn(options.program ?? process.execPath, args, {
    env: { ...ownEnvironment, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text))
  const lines = createInterface({ input: child.stdout })
  const said: string[] = []
  lines.on('line', (line) => said.push(line))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  alive.add(child)
  void ended.then(() => alive.delete(child))
  const ready = await new Promise<RunningProcess['ready'] | null>((resolve) => {
    lines.on('line', (line) => {
      if (line.startsWith('{"ready":true')) resolve(JSON.parse(line))
    })
    void ended.then(() => resolve(null))
  })
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    return ended
  }
  return { child, ready, said, log: () => log, stop, ended }
}

/** Calls the API, and compares each reply with the service's description. */
export function callerOf(base: () => string): Call {
  return async (method, requestPath, body, options = {}) => {
    const isText = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream
    const pathAndQuery =
      requestPath.startsWith('/svc') || requestPath.startsWith('//')
        ? requestPath
        : `/svc/api/v2${requestPath}`
    const origin = base()
    const response = await fetch(`${origin}${pathAndQuery}`, {
      method,
      headers: {
        ...(options.key === null ? {} : { authorization: basic(`api:${options.key ?? bootstrapKey}`) }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: isText ? (body as string) : JSON.stringify(body) }),
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    })
    const text = await response.text()
    contract ??= descriptionOf(origin)
      .then(contractOf)
      .catch((error: unknown) => {
        contract = undefined
        throw error
      })
    const problems = (await contract).problems({
      method,
      path: pathAndQuery,
      status: response.status,
      contentType: response.headers.get('content-type'),
      text,
    })
    if (problems.length > 0)
      throw new Error(`${method} ${pathAndQuery}: ${problems.join('; ')}; it said ${text.slice(0, 2_000)}`)
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? JSON.parse(text) : undefined,
    }
  }
}

let contract: Promise<Contract> | undefined

/**
 * The service's description of itself. All control planes of a run have the same one, as check-endpoints.ts asserts.
 * Making it takes a third of a second, so only the first one is asked.
 */
export async function descriptionOf(origin: string): Promise<Json> {
  const file = present(process.env['ROLLCALL_TEST_DESCRIPTION'], 'ROLLCALL_TEST_DESCRIPTION')
  const kept = await readFile(file, 'utf8').catch(() => null)
  if (kept !== null) return JSON.parse(kept)
  const text = await (await fetch(`${origin}/openapi.json`)).text()
  await writeFile(`${file}.${process.pid}`, text)
  await rename(`${file}.${process.pid}`, file)
  return JSON.parse(text)
}

export const basic = (credentials: string): string => `Basic ${Buffer.from(credentials).toString('base64')}`

/** Asks until the answer is the one that is waited for; the last one is in the error when it never comes. */
export async function until<T>(
  what: string,
  ask: () => Promise<T>,
  isIt: (answer: T) => boolean,
  timeoutMs = 120_000,
  pauseMs = 40,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (isIt(answer)) return answer
    if (Date.now() > deadline)
      throw new Error(
        `${what} didn't come within ${timeoutMs / 1000} s; the last answer: ${JSON.stringify(answer)}`,
      )
    await sleep(pauseMs)
  }
}

/** Resumes a process of which `crashAt` has logged that it is suspended. */
export const resume = (child: { kill: (signal: 'SIGCONT') => unknown }, log: () => string): Promise<string> =>
  until(
    'its going on',
    async () => {
      // It logs that a moment before it is suspended, and a signal that comes in between is lost.
      child.kill('SIGCONT')
      return log()
    },
    (text) => text.includes(wentOn),
    60_000,
  )

/** Waits until no lane of the engine works, neither on its own chunks nor on those that were taken from it. */
export const untilIdle = ({ ready }: RunningProcess): Promise<string> =>
  until(
    'free lanes',
    async () => (await fetch(present(ready.metrics['engine'], 'the URL of the metrics'))).text(),
    (metrics) => /^rollcall_worker_utilization_ratio 0$/m.test(metrics),
  )

/** An end is final, so that tests may poll for it at a longer interval. */
const endPauseMs = 100

/** Polls the database: a view counts anew, and would take processor time from the import. */
export async function importEnd(service: Service, id: number, timeoutMs?: number): Promise<Json> {
  await until(
    `the end of import ${id}`,
    () => service.collections.imports.findOne({ _id: id }, { projection: { plan: 0, options: 0 } }),
    (document) => document !== null && hasEnded(document.state),
    timeoutMs,
    endPauseMs,
  )
  return service.get(`/subscriber_imports/${id}`)
}

export async function createList(
  service: Service,
  fields: unknown[] = [],
  list: Record<string, unknown> = {},
): Promise<Json> {
  const created = await service.post('/mailing_lists', {
    mailing_list: { name: `List ${randomBytes(4).toString('hex')}`, ...list },
  })
  for (const field of fields)
    await service.post(`/mailing_lists/${created.id}/custom_fields`, { custom_field: field })
  return created
}

/** Creates an import of inline content and waits for its end. */
export async function importText(
  service: Service,
  listId: number,
  content: string,
  options: Record<string, unknown> = {},
): Promise<Json> {
  const created = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], ...options, file_source: { type: 'json', content } },
  })
  return importEnd(service, created.id)
}

/** The counts of an import that are not zero. */
export function countsOf(view: Json): Record<string, number> {
  const counts: Record<string, number> = view.stats.subscribers
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}
