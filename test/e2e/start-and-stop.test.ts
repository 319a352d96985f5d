import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { superviseChild } from '../../control-plane/cli/supervised-child.ts'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { findMongod } from '../../shared/runtime/mongod/find-mongod.ts'
import { hasTerminals } from '../helpers/command-line.ts'
import { stopTookTooLong } from '../helpers/ended-late.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { processesOf, untilNoProcessOf } from '../helpers/processes-of.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import {
  callerOf,
  freePorts,
  startProgram,
  testMongodbUri,
  until,
  wholeMongodbUri,
  type RunningProcess,
} from '../helpers/service.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const free = {
  ...freePorts,
  ENGINE_WORKERS: '1',
}
const folder = await mkdtemp(path.join(tmpdir(), 'rollcall e2e '))
t.teardown(() => rm(folder, { recursive: true, force: true }))

const npmStart = (settings: Record<string, string>) =>
  startProgram(['start'], { ...free, ...settings }, { program: 'npm', cwd: root })
const node = (file: string, settings: Record<string, string>) =>
  startProgram([path.join(root, file)], { ...free, ...settings })

/** What a start leaves to do has been done, and each thread has returned the memory that it needed for it. */
const restAfterMs = 30_000
const restMs = 24_000

/** Measures the service without its database, npm included. The bounds are those of a machine with other work. */
async function rests(t: Test, ready: RunningProcess['ready'], dataFolder: string): Promise<void> {
  const client = await MongoClient.connect(await wholeMongodbUri({ ready }), {
    ...{ serverMonitoringMode: 'poll', heartbeatFrequencyMS: 600_000 },
  })
  t.teardown(() => client.close())
  await sleep(restAfterMs)
  const processes = (await processesOf(dataFolder)).filter((process) => !process.includes('--dbpath'))
  const pids = processes.map((process) => process.split(' ')[0]!)
  // A process that was suspended for a while repeats what it missed, so another time may be the right one.
  const atRest = await repeatWhile(
    () => measureRest(client, pids),
    ({ commands, cpu }) => commands >= 3.3 || cpu >= 0.02,
  )
  const memory = await sumOf(pids, proportionalMB)
  t.comment(
    `${atRest.commands.toFixed(2)} commands a second, ${(atRest.cpu * 100).toFixed(2)} % of a core, ${Math.round(memory)} MB in ${pids.length} processes`,
  )
  // 2.8 are expected. One poll of an engine more or less within the time is 7 commands, 0.3 a second.
  t.ok(atRest.commands < 3.3, `${atRest.commands} commands a second`)
  t.ok(atRest.cpu < 0.02, `${atRest.cpu} of a core`)
  // 310 are expected, less beside other processes of Node.js, and 60 more at the first start in a new clone, whose code isn't cached yet.
  t.ok(memory < 380, `${memory} MB of proportional set size`)
  await pauseBeforeAnother(ready)
  await sleep(5_000)
  const whilePaused = await repeatWhile(
    () => measureRest(client, pids),
    ({ commands }) => commands >= 3.5,
  )
  t.ok(
    whilePaused.commands < 3.5,
    `${whilePaused.commands} commands a second while an import waits behind a paused one`,
  )
}

/** The commands and the cores that the service needs each second. */
async function measureRest(client: MongoClient, pids: string[]): Promise<{ commands: number; cpu: number }> {
  const [commandsBefore, secondsBefore] = [await countCommands(client), await sumOf(pids, cpuSeconds)]
  const startedAt = performance.now()
  await sleep(restMs)
  const [commands, seconds] = [await countCommands(client), await sumOf(pids, cpuSeconds)]
  const elapsed = (performance.now() - startedAt) / 1000
  return { commands: (commands - commandsBefore) / elapsed, cpu: (seconds - secondsBefore) / elapsed }
}

/** Pauses an import in its work. Another one of its list, which is due, waits for it. */
async function pauseBeforeAnother(ready: RunningProcess['ready']): Promise<void> {
  const call = callerOf(() => ready?.http ?? '')
  const post = async (path: string, body?: unknown): Promise<{ id: number }> => {
    const { status, body: reply } = await call('POST', path, body, { key })
    if (status !== 200) throw new Error(`${path}: ${JSON.stringify(reply)}`)
    return reply.data as { id: number }
  }
  const { id: listId } = await post('/mailing_lists', { mailing_list: { name: 'Paused' } })
  const create = (rows: number) =>
    post(`/mailing_lists/${listId}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: {
          type: 'json',
          content: ['email', ...Array.from({ length: rows }, (_, i) => `r${i}@example.com`)].join('\n'),
        },
      },
    })
  const { id } = await create(50_000)
  const state = async () =>
    ((await call('GET', `/subscriber_imports/${id}`, undefined, { key })).body.data as { state: string })
      .state
  await until('its work', state, (found) => found !== 'scheduled')
  await post(`/subscriber_imports/${id}/pause`)
  await create(1)
}

/** All commands that the server has carried out, `hello` included, without those of this client. */
async function countCommands(client: MongoClient): Promise<number> {
  const { metrics } = await client.db('admin').command({ serverStatus: 1 })
  const { serverStatus: _, ...others } = metrics.commands as Record<string, { total?: number }>
  return Object.values(others).reduce((sum, { total }) => sum + (total ?? 0), 0)
}

const sumOf = async (pids: string[], measure: (pid: string) => Promise<number>): Promise<number> =>
  (await Promise.all(pids.map(measure))).reduce((a, b) => a + b, 0)

/** The ticks of utime and stime; Linux has 100 a second. */
async function cpuSeconds(pid: string): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /, '').split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

async function proportionalMB(pid: string): Promise<number> {
  const [, kB] = /^Pss:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/smaps_rollup`, 'utf8'))!
  return Number(kB) / 1024
}

/** The data folder of the first two tests. */
const DATA_DIR = path.join(folder, 'data 1')
let key = ''

t.test(
  'npm start brings up the whole service on an embedded database, and SIGTERM to npm ends all of it',
  { timeout: 300_000 },
  async (t) => {
    // The folder that an operator made.
    await mkdir(DATA_DIR)
    await chmod(DATA_DIR, 0o755)
    const first = await npmStart({ DATA_DIR })
    const { ready } = first
    t.match(ready, {
      ready: true,
      http: /^http:\/\/127\.0\.0\.1:\d+$/,
      ftp: /^ftp:\/\/127\.0\.0\.1:\d+$/,
      metrics: { control_plane: /\/metrics$/, engine: /\/metrics$/, ftp: /\/metrics$/ },
      mongodb: /^mongodb:\/\/rollcall:\*\*\*@127\.0\.0\.1:\d+/,
      mongodb_password_file: path.join(DATA_DIR, 'mongodb.password'),
      api_key: /^rollcall_/,
    })
    t.equal((await stat(DATA_DIR)).mode & 0o777, 0o700, 'other users of the machine see nothing of it')
    key = ready!.api_key!
    const call = callerOf(() => ready!.http!)
    t.match((await call('GET', '/organizations', undefined, { key })).body, { data: [{ id: 1 }] })
    const root = async () => (await fetch(ready!.http!)).json() as Promise<{ ftp: string | null }>
    await until('the address of its FTP server', root, ({ ftp }) => ftp === ready!.ftp, 10_000)
    for (const url of Object.values(ready!.metrics)) {
      t.match(await (await fetch(url)).text(), /^rollcall_/m, url)
      for (const name of ['healthz', 'readyz'])
        t.equal((await fetch(url.replace('metrics', name))).status, 200, name)
    }
    await t.test('at rest it sends few commands, and takes little memory and time', (t) =>
      rests(t, ready!, DATA_DIR),
    )
    const startedAt = Date.now()
    t.equal(await first.stop('SIGTERM'), 0, 'exit code 0')
    t.ok(Date.now() - startedAt < 10_000, `within ${Date.now() - startedAt} ms`)
    await untilNoProcessOf(DATA_DIR)
  },
)

t.test(
  'on a terminal a start prints what people need, and --help starts nothing',
  { skip: hasTerminals ? false : 'python3 with pty not installed' },
  async (t) => {
    const start = path.join(root, 'control-plane/cli/start.ts')
    const help = spawnSync(process.execPath, [start, '--help'], { encoding: 'utf8' })
    t.match(help, { status: 0, stdout: /Usage: npm start[^]*DATA_DIR/, stderr: '' })
    const wrong = spawnSync(process.execPath, [start, '--port', '1'], { encoding: 'utf8' })
    t.match(wrong, { status: 2, stdout: '', stderr: /unknown argument --port/ })

    const inTerminal = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'
    const textOf = async (byNpm: { npm_lifecycle_event?: string }): Promise<string> => {
      const { npm_lifecycle_event: _, ...env } = process.env
      const child = spawn('python3', ['-c', inTerminal, process.execPath, start], {
        env: { ...env, ...byNpm, ...free, DATA_DIR, LOG_LEVEL: 'error' },
      })
      let shown = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text))
      const exit = once(child, 'exit')
      await until(
        'the text for people',
        async () => shown,
        (text) => text.includes('--watch'),
      )
      child.stdin.write('\x03')
      t.equal((await exit)[0], 0)
      return shown
    }
    const shown = await textOf({ npm_lifecycle_event: 'start' })
    t.notMatch(shown, /"ready"/)
    t.match(shown, /ready\. Ctrl-C stops it[^]*http:\/\/127\.0\.0\.1:\d+\/docs\/[^]*ftp:\/\/127/)
    t.match(shown, /^ {2}npx rollcall import people\.csv --list News --watch/m)
    const ofPackage = await textOf({})
    t.match(ofPackage, /^ {2}rollcall import people\.csv --list News --watch/m)
    t.notMatch(ofPackage, /npx/)
    const recovery = `If the key is lost, stop this service, then run: DATA_DIR='${DATA_DIR}' npx rollcall recover-key`
    t.ok(shown.includes(recovery), shown)
    t.notMatch(shown, /mongodb:\/\/rollcall:[^*@]+@/, 'the password of the database is not shown')
  },
)

t.test(
  'each process prints its own endpoints, and joins the embedded database of a running service by its URI',
  { timeout: 300_000 },
  async (t) => {
    const service = await node('control-plane/cli/start.ts', { DATA_DIR })
    t.equal(service.ready!.api_key, null, 'the key is said only by the start that made it')
    const MONGODB_URI = await wholeMongodbUri({ ready: service.ready! })
    const started = await Promise.all(
      ['control-plane', 'engine', 'ftp'].map((name) => node(`${name}/main.ts`, { DATA_DIR, MONGODB_URI })),
    )
    const [controlPlane, engine, ftp] = started.map(
      (running) => running.ready as unknown as Record<string, unknown>,
    )
    t.match(controlPlane, {
      ready: true,
      process: 'control-plane',
      http: String,
      metrics: { control_plane: String },
      mongodb: service.ready!.mongodb,
      mongodb_password_file: null,
      api_key: null,
    })
    t.match(engine, { process: 'engine', metrics: { engine: String } })
    t.match(ftp, { process: 'ftp', ftp: String, metrics: { ftp: String } })
    const call = callerOf(() => controlPlane!['http'] as string)
    const answer = await call('GET', '/organizations', undefined, { key })
    t.match(answer.body, { success: true }, 'the data are kept')
    t.same(await Promise.all(started.map((running) => running.stop('SIGINT'))), [0, 0, 0])

    await t.test('a second service and a command line without the URI are refused', async (t) => {
      const [second, recovery] = await Promise.all([
        node('control-plane/cli/start.ts', { DATA_DIR }),
        startProgram([path.join(root, 'control-plane/cli/main.ts'), 'recover-key'], { DATA_DIR }),
      ])
      for (const { log } of [second, recovery])
        t.match(log(), /an embedded MongoDB server runs on .* already/)
      t.equal(await second.ended, 1)
    })
    t.equal(await service.stop(), 0)
    await untilNoProcessOf(DATA_DIR)
  },
)

t.test(
  'a process that can’t start says why in one sentence, ends with 1, and leaves nothing running',
  { timeout: 300_000 },
  async (t) => {
    const MONGODB_URI = testMongodbUri()
    const MONGODB_DATABASE = `test_failures_${process.pid}`
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const port = String((taken.address() as { port: number }).port)
    const freePortNumber = String(await freePort())
    const cases: [file: string, settings: Record<string, string>, said: RegExp][] = [
      [
        'control-plane/cli/start.ts',
        { HTTP_PORT: '0', FTP_PORT: port, FTP_METRICS_PORT: '0', ENGINE_METRICS_PORT: '0' },
        /another program uses the port; set FTP_PORT/,
      ],
      [
        'control-plane/cli/start.ts',
        { MONGODB_URI: '', EMBEDDED_MONGODB: 'false' },
        /MONGODB_URI is not set/,
      ],
      ...['control-plane', 'engine', 'ftp'].map((name): (typeof cases)[number] => [
        `${name}/main.ts`,
        { MONGODB_URI: '' },
        /MONGODB_URI is not set: .*`npm start`/,
      ]),
      [
        'engine/main.ts',
        { MONGODB_URI: `mongodb://me:s3cret@127.0.0.1:${freePortNumber}/` },
        /MongoDB at mongodb:\/\/me:\*\*\*@127\.0\.0\.1:\d+\/ can't be reached .*check MONGODB_URI/,
      ],
      [
        'control-plane/main.ts',
        { HTTP_PORT: port },
        new RegExp(`can't listen on 127\\.0\\.0\\.1:${port}: another program uses the port; set HTTP_PORT`),
      ],
      [
        'control-plane/main.ts',
        { HTTP_PORT: 'x', LOG_LEVEL: 'loud' },
        /setting HTTP_PORT must be an integer from 0 to 65535 \(it is "x"\); setting LOG_LEVEL must be/,
      ],
      [
        'engine/main.ts',
        { ENGINE_METRICS_PORT: port },
        /another program uses the port; set ENGINE_METRICS_PORT/,
      ],
      [
        'ftp/main.ts',
        { DATA_DIR: '/etc/passwd' },
        /DATA_DIR \/etc\/passwd can't be used: .*set it to a folder/,
      ],
      ['ftp/main.ts', { DATA_DIR: '/proc/x' }, /DATA_DIR \/proc\/x can't be used/],
    ]
    const refused = async (number: number, [file, settings, message]: (typeof cases)[number]) => {
      const DATA_DIR = path.join(folder, `failure ${number}`)
      const running = await node(file, { MONGODB_URI, MONGODB_DATABASE, DATA_DIR, ...settings })
      t.equal(running.ready, null)
      t.equal(await running.ended, 1, `${file} ${JSON.stringify(settings)}`)
      const lines = running
        .log()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { level: string; msg: string })
      t.equal(lines.filter(({ level }) => level === 'fatal').length, 1, 'one fatal line')
      const said = lines.map(({ msg }) => msg)
      t.ok(
        said.some((line) => message.test(line)),
        said.join('\n'),
      )
      t.notMatch(running.log(), /s3cret|\n\s+at /, 'without a stack or a password')
      await untilNoProcessOf(DATA_DIR)
    }
    const waiting = cases.entries()
    const lane = async () => {
      for (const [number, one] of waiting) await refused(number, one)
    }
    await Promise.all([lane(), lane()])
    taken.close()
  },
)

t.test(
  'a process that ended is tried again until what it lacks is back, or until that is hopeless',
  { timeout: 300_000 },
  async (t) => {
    const DATA_DIR = path.join(folder, 'data 5')
    const settings = {
      ...freePorts,
      DATA_DIR,
      MONGODB_URI: testMongodbUri(),
      MONGODB_DATABASE: `test_restarts_${process.pid}`,
    }
    const before = process.env
    process.env = { ...before, ...settings }
    t.teardown(() => (process.env = before))
    const lines: string[] = []
    const log = pino({}, { write: (line) => void lines.push(line) })
    let hopeless = 0
    const bounds = { firstPauseMs: 100, maxPauseMs: 200, giveUpAfterMs: 60_000 }
    const stopping = new AbortController()
    const supervision = { log, settings: {}, stopping: stopping.signal, onHopeless: () => (hopeless += 1) }
    const child = await superviseChild('ftp', supervision, bounds)
    const url = new URL(child.ready.metrics['ftp']!)
    const healthy = () =>
      fetch(new URL('/healthz', url)).then(
        ({ status }) => status === 200,
        () => false,
      )
    const failures = () => lines.filter((line) => line.includes("couldn't be started again")).length

    /** Ends it, after which it can't be started. */
    const loseIt = async () => {
      process.env['LOG_LEVEL'] = 'none at all'
      const [pid] = (await processesOf(DATA_DIR))[0]!.split(' ')
      process.kill(Number(pid), 'SIGKILL')
    }
    await loseIt()
    await until(
      'two tries',
      () => Promise.resolve(failures()),
      (count) => count >= 2,
    )
    delete process.env['LOG_LEVEL']
    await until('its health', healthy, (isHealthy) => isHealthy)
    t.equal(hopeless, 0)

    bounds.giveUpAfterMs = 0
    await loseIt()
    await until(
      'the end of hope',
      () => Promise.resolve(hopeless),
      (count) => count > 0,
    )
    t.match(lines.at(-1), /the ftp process can't be started again/)
    stopping.abort()
    await child.stop()
    await untilNoProcessOf(DATA_DIR)
  },
)

t.test('a standalone server is refused, with what to do about it', { timeout: 300_000 }, async (t) => {
  const mongod = await findMongod({
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log: pino({ level: 'silent' }),
    signal: new AbortController().signal,
  })
  const port = await freePort()
  const dbPath = await mkdtemp(path.join(folder, 'standalone'))
  const server = spawn(
    mongod.binary,
    [
      '--dbpath',
      dbPath,
      '--port',
      String(port),
      '--bind_ip',
      '127.0.0.1',
      '--nounixsocket',
      '--wiredTigerCacheSizeGB',
      '0.25',
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise((resolve) => server.once('exit', resolve))
  const MONGODB_URI = `mongodb://127.0.0.1:${port}/`
  // An engine waits 8 s for its server, which may need longer to start.
  await (await MongoClient.connect(MONGODB_URI, { serverSelectionTimeoutMS: 60_000 })).close()
  const running = await node('engine/main.ts', {
    MONGODB_URI,
    DATA_DIR: path.join(folder, 'standalone data'),
  })
  t.equal(running.ready, null)
  t.match(
    running.log(),
    /is a standalone server, and Rollcall needs transactions: make it a replica set of one by starting mongod with --replSet rs0 and running rs\.initiate\(\)/,
  )
  server.kill()
  await ended
})

t.test('a second signal ends a process at once', { timeout: 300_000 }, async (t) => {
  // This server never answers, so after the first signal the process would still wait for it.
  const silent = createServer()
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.teardown(() => silent.close())
  const connected = once(silent, 'connection')
  const DATA_DIR = path.join(folder, 'data 4')
  const { port } = silent.address() as { port: number }
  const starting = node('engine/main.ts', { MONGODB_URI: `mongodb://127.0.0.1:${port}/`, DATA_DIR })
  await connected
  const pid = Number((await processesOf(DATA_DIR))[0]!.split(' ')[0])
  let isOver = false
  void starting.then(() => (isOver = true))
  while (!isOver) {
    try {
      process.kill(pid, 'SIGTERM')
    } catch {
      // It has just ended.
    }
    await sleep(400)
  }
  const running = await starting
  t.equal(await running.ended, 1)
  t.match(running.log(), /SIGTERM: stopping[^]*SIGTERM again: the process ends at once/)
})

t.test('the first API key is shown by the start that made it, also where that fails', async (t) => {
  const MONGODB_URI = testMongodbUri()
  const settings = {
    MONGODB_URI,
    MONGODB_DATABASE: `test_first_key_${process.pid}`,
    DATA_DIR: path.join(folder, 'first key'),
  }
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.teardown(() => taken.close())
  const port = String((taken.address() as { port: number }).port)
  const early = await node('control-plane/main.ts', { ...settings, HTTP_PORT: port })
  t.equal(await early.ended, 1)
  t.same(early.said, [], 'no key is made before the port is open')
  const failed = await node('control-plane/cli/start.ts', { ...settings, FTP_PORT: port })
  t.equal(await failed.ended, 1)
  t.equal(failed.said.length, 1)
  const shown = JSON.parse(failed.said[0]!) as { ready: boolean; api_key: string }
  t.match(shown, { ready: false, api_key: /^rollcall_/ })
  const second = await node('control-plane/main.ts', settings)
  t.equal(second.ready!.api_key, null)
  const call = callerOf(() => second.ready!.http!)
  t.equal((await call('GET', '/organizations', undefined, { key: shown.api_key })).status, 200)
  t.equal(await second.stop(), 0)
})

t.test('a signal ends a start at any moment, and no key is lost', { timeout: 300_000 }, async (t) => {
  for (const moment of ['embedded MongoDB is up', '"process":"control-plane"', 'engine is at work']) {
    const { DATA_DIR, ended, tookMs, log, said } = await repeatWhile(
      () => stopStartAt(moment),
      ({ tookMs, log }) => tookMs >= 8_000 || stopTookTooLong({ log }),
    )
    t.equal(ended, 0, `${moment}: ${log()}`)
    t.ok(tookMs < 8_000, `${moment}: ended after ${tookMs} ms`)
    await untilNoProcessOf(DATA_DIR)
    const next = await node('control-plane/cli/start.ts', { DATA_DIR, STAGING: 'gridfs' })
    t.ok(
      (await stat(path.join(DATA_DIR, 'secrets.key'))).size > 0,
      'secrets are sealed, as DATA_DIR is shared',
    )
    const keys = [said.match(/"api_key":"(\w+)"/)?.[1], next.ready!.api_key].filter(Boolean)
    t.equal(keys.length, 1, `${moment}: one of both starts shows a key`)
    const call = callerOf(() => next.ready!.http!)
    t.equal((await call('GET', '/organizations', undefined, { key: keys[0]! })).status, 200)
    t.equal(await next.stop(), 0)
  }
})

/** Starts the service and stops it when its log has this text. `ended` is its exit code, or the signal that ended it. */
async function stopStartAt(moment: string) {
  const DATA_DIR = await mkdtemp(path.join(folder, 'stopped start '))
  const child = spawn(process.execPath, [path.join(root, 'control-plane/cli/start.ts')], {
    env: { ...process.env, ...free, MONGODB_URI: '', DATA_DIR, STAGING: 'gridfs' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let log = ''
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text))
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  const closed = once(child, 'close')
  await until(
    moment,
    async () => log,
    (text) => text.includes(moment),
    60_000,
  )
  const startedAt = Date.now()
  child.kill('SIGTERM')
  const [code, signal] = await closed
  return { DATA_DIR, ended: code ?? signal, tookMs: Date.now() - startedAt, log: () => log, said }
}

t.test('slow clients delay a stop by less than 10 s, and a body that still arrives is refused', async (t) => {
  const { DATA_DIR, tookMs, exitCode, running, reply } = await repeatWhile(
    (attempt) => stopWithSlowClients(t, path.join(folder, `slow clients ${attempt}`)),
    ({ tookMs, running }) => tookMs >= 10_000 || stopTookTooLong(running),
  )
  t.equal(exitCode, 0, running.log())
  t.ok(tookMs < 10_000, `ended after ${tookMs} ms`)
  await untilNoProcessOf(DATA_DIR)
  t.match(reply, /^HTTP\/1\.1 503 [^]*resume it with Content-Range/)
})

/** Stops `npm start` while one client reads nothing, one sends a body slowly, and one keeps an upload by FTP open. */
async function stopWithSlowClients(t: Test, DATA_DIR: string) {
  const running = await npmStart({ DATA_DIR })
  const { http, ftp, api_key: key } = running.ready!
  const call = callerOf(() => http!)
  const authorization = `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
  const uploaded = await fetch(`${http}/svc/api/v2/uploads/large.csv`, {
    method: 'PUT',
    headers: { authorization },
    body: Buffer.alloc(32_000_000, 'email@example.com\n'),
  })
  t.equal(uploaded.status, 200)
  const reader = connect(Number(new URL(http!).port), '127.0.0.1')
  reader.write(
    `GET /svc/api/v2/uploads/large.csv HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\n\r\n`,
  )
  await once(reader, 'readable')
  const session = await FtpSession.open(ftp!, key!)
  const data = await session.beginUpload('STOR partial.csv')
  data.write('email\n')
  const sender = connect(Number(new URL(http!).port), '127.0.0.1')
  sender.write(
    `PUT /svc/api/v2/uploads/slow.csv HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization}\r\ncontent-length: 1000\r\n\r\n`,
  )
  const trickle = setInterval(() => sender.write('x'), 300)
  t.teardown(() => clearInterval(trickle))
  let reply = ''
  sender.setEncoding('utf8').on('data', (text: string) => (reply += text))
  for (const socket of [reader, sender, data, session.control]) socket.on('error', () => undefined)
  await until(
    'the upload has begun',
    () => call('GET', '/uploads', undefined, { key: key! }),
    ({ body }) => body.data.some(({ filename }: { filename: string }) => filename === 'slow.csv'),
  )
  const startedAt = Date.now()
  const exitCode = await running.stop('SIGTERM')
  const tookMs = Date.now() - startedAt
  clearInterval(trickle)
  for (const socket of [reader, sender, data, session.control]) socket.destroy()
  return { DATA_DIR, tookMs, exitCode, running, reply }
}
