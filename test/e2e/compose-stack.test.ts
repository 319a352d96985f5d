import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import t, { type Test } from 'tap'
import { Agent, fetch } from 'undici'
import { errorMessage } from '../../shared/contract/errors.ts'
import { findMongod } from '../../shared/runtime/mongod/find-mongod.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { makeCertificate } from '../helpers/certificate.ts'
import { chromiumPath } from '../helpers/console-browser.ts'
import { DocumentedCommands } from '../helpers/documented-commands.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { command, noDockerEngine, startDockerEngine, type DockerEngine } from '../helpers/docker-engine.ts'
import { missing } from '../helpers/missing-programs.ts'
import { basic, until, type Json } from '../helpers/service.ts'
import { downloadStandIns, makeStandInImages } from '../helpers/stand-in-images.ts'

/**
 * Builds and starts docker-compose.yml with the README's command, in a Docker engine of its own: run for real the first
 * time it had eight faults that schema and eye had missed. The machine's own Docker has other containers and ports, and
 * images would stay behind. Base images are stand-ins, since no registry can be reached; that of mongosh runs the
 * JavaScript that it is given, or a broken health check would pass. It takes minutes, so it
 * runs only where ROLLCALL_COMPOSE is set. ROLLCALL_COMPOSE_CACHE names a folder that keeps Debian and Caddy for the
 * next run.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))
const skip =
  process.env['ROLLCALL_COMPOSE'] === undefined
    ? 'ROLLCALL_COMPOSE is not set'
    : noDockerEngine() ||
      missing('git', 'curl', 'openssl') ||
      (!existsSync(path.join(root, '.git')) && 'the project is no clone, and the test builds its commits')

const product = ['shared', 'control-plane', 'engine', 'ftp', 'package.json', 'package-lock.json']

/** A clone made under a strict umask, of which other users can read no file, and the commit before the product's last. */
async function cloneProject(folder: string) {
  const checkout = path.join(folder, 'rollcall')
  await command('sh', ['-c', 'umask 027 && git clone -q "$1" "$2"', 'sh', root, checkout])
  const git = (...args: string[]) => command('git', ['-C', checkout, ...args])
  const changed = await git('log', '-1', '--format=%H', '--', ...product)
  const before = await git('rev-parse', '--verify', '--quiet', `${changed}~1`).catch(() => null)
  return { checkout, git, before }
}

interface EngineOptions {
  folder: string
  cache: string
  checkout: string
  before: string | null
  withoutTools: string | false
  say: (text: string) => void
}

/** A Docker engine with stand-ins of the base images. Everything is removed when the test is over. */
async function startEngine(t: Test, options: EngineOptions) {
  const { folder, cache, checkout, before, withoutTools, say } = options
  const { binary: mongod } = await findMongod({
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log: createLogger({ process: 'test', level: 'warn' }),
    signal: AbortSignal.timeout(300_000),
  })
  const databaseTools = withoutTools
    ? []
    : (await command('which', ['mongodump', 'mongorestore'])).trim().split('\n')
  const commits = before === null ? ['HEAD'] : ['HEAD', before]
  const isKept = process.env['ROLLCALL_COMPOSE_CACHE'] !== undefined
  const standIns = { folder, cache, isKept, checkout, commits, mongod, databaseTools }
  const downloaded = downloadStandIns(standIns)
  // An error of the engine's start is thrown first, and this one below.
  downloaded.catch(() => undefined)
  const engine = await startDockerEngine(folder, cache)
  t.teardown(async () => {
    await engine.run('docker rm --force $(docker ps --all --quiet)').catch(() => '')
    await engine.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  say('the Docker engine')
  await downloaded
  say('what the stand-ins of the base images are made of')
  t.comment(`in place of the pinned versions: ${await makeStandInImages(engine, standIns)}`)
  say('the stand-ins')
  return engine
}

/** Requests to the proxy with the key, and to Prometheus. */
async function openClient(t: Test, engine: DockerEngine, key: string) {
  const dispatcher = new Agent({ connect: { socketPath: await engine.forward(8080) }, connections: 64 })
  const prometheus = new Agent({ connect: { socketPath: await engine.forward(9090) } })
  t.teardown(() => Promise.all([dispatcher.close(), prometheus.close()]))
  const request = async (requestPath: string, body?: unknown) => {
    const reply = await fetch(`http://localhost${requestPath}`, {
      dispatcher,
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: basic(`api:${key}`), 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    })
    return { status: reply.status, text: await reply.text() }
  }
  const api = async (requestPath: string, body?: unknown): Promise<Json> => {
    const { status, text } = await request(`/svc/api/v2${requestPath}`, body)
    const reply = JSON.parse(text)
    if (reply.success !== true) throw new Error(`${requestPath}: ${status} ${text}`)
    return reply.data
  }
  const eventsOf = (id: number) =>
    fetch(`http://localhost/svc/api/v2/subscriber_imports/${id}/events`, {
      dispatcher,
      headers: { authorization: basic(`api:${key}`) },
    })
  const askPrometheus = async (query: string): Promise<Json> =>
    (await fetch(`http://localhost/api/v1/${query}`, { dispatcher: prometheus })).json()
  return { dispatcher, request, api, eventsOf, askPrometheus }
}

function importsThrough(api: (requestPath: string, body?: unknown) => Promise<Json>) {
  const createList = async (name: string): Promise<number> =>
    (await api('/mailing_lists', { mailing_list: { name } })).id
  const createImport = async (name: string, source: object): Promise<number> => {
    const list = await createList(name)
    const body = { subscriber_import: { column_mapping: ['email'], file_source: source } }
    return (await api(`/mailing_lists/${list}/subscriber_imports`, body)).id
  }
  const finished = async (id: number): Promise<[string, number]> => {
    const view = await until(
      'the end of an import',
      () => api(`/subscriber_imports/${id}`).catch(() => ({ state: 'unknown' })),
      ({ state }) => ['finished', 'failed', 'cancelled'].includes(state),
      120_000,
    )
    return [view.state, view.stats.subscribers.added]
  }
  return { createList, createImport, finished }
}

interface Reply {
  kind: 'GET' | 'POST'
  sentAt: number
  ms: number
  /** The status, or what the connection's error says. */
  answer: string
}
/** Clients usually wait this long; the proxy itself would try for 15 s. */
const maxReplyMs = 10_000
type SendRequest = (requestPath: string, body?: unknown) => Promise<{ status: number }>

/**
 * Sends a GET and a POST every 50 ms until 3 s after `event`. None may take longer than `maxMs`. The GET doesn't read what
 * the POSTs create, so that its reply stays small however long the event takes.
 */
async function sendDuring(
  t: Test,
  request: SendRequest,
  event: () => Promise<unknown>,
  maxMs = maxReplyMs,
): Promise<Reply[]> {
  const replies: Promise<Reply>[] = []
  const send = (kind: Reply['kind'], body?: unknown) => {
    const sentAt = Date.now()
    const resource = body === undefined ? 'organizations' : 'mailing_lists'
    const answered = request(`/svc/api/v2/${resource}`, body).then(
      ({ status }) => String(status),
      (error: unknown) => errorMessage(error),
    )
    replies.push(answered.then((answer) => ({ kind, sentAt, answer, ms: Date.now() - sentAt })))
  }
  const timer = setInterval(() => {
    send('GET')
    send('POST', { mailing_list: { name: randomBytes(8).toString('hex') } })
  }, 50)
  try {
    await event()
    await sleep(3_000)
  } finally {
    clearInterval(timer)
  }
  const all = await Promise.all(replies)
  const slowest = all.reduce((a, b) => (b.ms > a.ms ? b : a))
  const what = `the slowest reply, a ${slowest.kind} after ${slowest.sentAt - (all[0]?.sentAt ?? 0)} ms, took ${slowest.ms} ms`
  t.comment(`${all.length} requests, not 200: ${JSON.stringify(countBy(lost(all)))}; ${what}`)
  t.ok(slowest.ms < maxMs, what)
  return all
}
const lost = (replies: Reply[]) =>
  replies.filter(({ answer }) => answer !== '200').map(({ kind, answer }) => `${kind} ${answer}`)

const countBy = (answers: string[]) =>
  Object.fromEntries(
    Object.entries(Object.groupBy(answers, String)).map(([answer, all]) => [answer, all?.length]),
  )

/** So many rows that the import is still in progress when a container is killed. */
const rows = 300_000
const fewRows = 1_000

/** A Docker engine and a checkout of the commit before, with settings: everything but the running stack. */
async function prepareStack(t: Test) {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-compose-'))
  const cache = process.env['ROLLCALL_COMPOSE_CACHE'] ?? path.join(folder, 'cache')
  await mkdir(cache, { recursive: true })
  const startedAt = Date.now()
  const say = (text: string) => t.comment(`${Math.round((Date.now() - startedAt) / 1000)} s: ${text}`)

  const { checkout, git, before } = await cloneProject(folder)
  const withoutTools = missing('mongodump', 'mongorestore')
  const engine = await startEngine(t, { folder, cache, checkout, before, withoutTools, say })

  const inProject = (line: string) => engine.run(line, { in: '/work/rollcall', timeoutMs: 600_000 })
  const compose = (args: string) => inProject(`docker compose ${args}`)
  const key = randomBytes(24).toString('hex')
  const writeSettings = (settings: Record<string, string>) => {
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
    return appendFile(path.join(checkout, '.env'), lines.join(''))
  }
  const page = new DocumentedCommands('docker-compose.md')
  const documented = async (heading: string): Promise<string> => {
    const said: string[] = []
    for (const commands of page.under(heading)) said.push(await inProject(`bash -euc ${quoted(commands)}`))
    return said.join('\n')
  }
  await writeSettings({
    BOOTSTRAP_API_KEY: key,
    GRAFANA_ADMIN_PASSWORD: randomBytes(12).toString('hex'),
    // An import by URL reads from this service's own FTP server, as it would from a partner's.
    URL_IMPORT_ALLOW: 'ftp',
  })
  const certificate = await makeReadableCertificate(path.join(folder, 'tls'))
  await engine.run('mkdir -p /etc/rollcall && ln -sfn /work/tls /etc/rollcall/tls')
  await documented('FTP over TLS')
  if (before !== null) await git('checkout', '-q', before, '--', ...product)
  const containers = async (service: string) => (await compose(`ps --quiet ${service}`)).split('\n')
  return {
    ...{ folder, checkout, git, before, withoutTools, engine },
    ...{ inProject, compose, containers, key, writeSettings, page, documented, certificate, say },
  }
}
type PreparedStack = Awaited<ReturnType<typeof prepareStack>>

/** The running stack, with clients of it and files to import. */
async function openStack(t: Test, prepared: PreparedStack) {
  const { folder, engine, inProject, key } = prepared
  const client = await openClient(t, engine, key)
  const { api } = client
  const imports = importsThrough(api)
  const largeFile = await writeRows(folder, 'large.csv', rows)
  const smallFile = await writeRows(folder, 'small.csv', fewRows)
  const upload = (file: string, url: string, ...options: string[]) =>
    engine.runInNetwork('curl', ['-sSf', '-T', file, '-u', `api:${key}`, ...options, url])
  const importOfLargeFile = (name: string) =>
    imports.createImport(name, { type: 'upload_directory', filename: 'large.csv' })
  const subscribers = async (): Promise<number> => (await api('/subscriber_counts')).counts.active
  const rollingUpgrade = () => inProject('sh docs/compose/rolling-upgrade.sh')
  return {
    ...{ ...prepared, ...client, ...imports },
    ...{ smallFile, largeFile, upload, importOfLargeFile, subscribers, rollingUpgrade },
  }
}
type Stack = Awaited<ReturnType<typeof openStack>>

async function startEverything(t: Test, { engine, inProject, compose, say }: PreparedStack): Promise<void> {
  await t.resolves(inProject('umask 027 && docker compose config --quiet'))
  const buildStartedAt = Date.now()
  await compose('build --quiet control-plane')
  const buildSeconds = Math.round((Date.now() - buildStartedAt) / 1000)
  await t.resolves(inProject('umask 027 && docker compose up --detach --build --wait'))
  say('compose up')
  const base = /^FROM (\S+)/m.exec(await readFile(path.join(root, 'Dockerfile'), 'utf8'))![1]
  const sizes = await engine.run(`docker image inspect rollcall ${base} --format '{{.Size}}'`)
  const [size, baseSize] = sizes.split('\n').map(Number)
  t.comment(`the image: ${Math.round((size! - baseSize!) / 1e6)} MB on its base, built in ${buildSeconds} s`)
  const check = 'if (db.hello().isWritable) quit(0); rs.stat()'
  await t.rejects(
    compose(`exec -T mongodb mongosh --quiet --eval ${quoted(check)}`),
    'a health check with a mistake fails',
  )
}

async function showIdleShare(t: Test, { engine, say }: Stack): Promise<void> {
  await sleep(5_000)
  const from = await engine.processorSeconds()
  await sleep(30_000)
  const seconds = (await engine.processorSeconds()) - from
  t.comment(`idle: ${Math.round((seconds / 30) * 100)} % of a core`)
  t.ok(seconds > 0)
  say('idle')
}

async function importThroughEachDoor(t: Test, stack: Stack): Promise<void> {
  const { engine, containers, key, certificate, say } = stack
  const { api, eventsOf, createImport, finished, smallFile, upload, importOfLargeFile, largeFile } = stack
  t.same(
    await finished(await createImport('inline', { type: 'json', content: 'email\nann@example.com\n' })),
    ['finished', 1],
  )
  await upload(largeFile, 'ftp://localhost:2121/')
  const id = await importOfLargeFile('upload')
  const events = eventsOf(id).then((reply) => reply.text())
  await until(
    'rows',
    () => api(`/subscriber_imports/${id}`),
    ({ state }) => state === 'importing',
    60_000,
  )
  const [engineId] = await containers('engine')
  await engine.run(`docker kill ${engineId}`)
  t.same(await finished(id), ['finished', rows])
  const lastEvent = (await events)
    .trim()
    .split('\n')
    .findLast((line) => line.startsWith('data:'))
  t.match(lastEvent, /"state":"finished"/, 'events come through the proxy, to the last state')
  await engine.run(`docker start ${engineId}`)
  await upload(smallFile, 'ftp://localhost:2121/', '--ssl-reqd', '--cacert', certificate.cert)
  const url = await createImport('url', { type: 'url', url: `ftp://api:${key}@ftp:2121/small.csv` })
  t.same(await finished(url), ['finished', fewRows], 'what came over TLS, by a URL')
  say('imports')
}

async function replaceLostKey(t: Test, { documented, dispatcher }: Stack): Promise<void> {
  const recovered = (await documented('A lost key')).trim()
  const reply = await fetch('http://localhost/svc/api/v2/mailing_lists', {
    dispatcher,
    headers: { authorization: basic(`api:${recovered}`) },
  })
  t.equal(reply.status, 200)
}

async function backUpAndRestore(t: Test, stack: Stack): Promise<void> {
  const { inProject, page, documented, say } = stack
  const { api, createList, createImport, finished, subscribers } = stack
  const before = await subscribers()
  t.ok(before >= rows)
  const files = page
    .under('Backup')
    .join('')
    .split('\n')
    .find((line) => line.includes('tar.gz'))!
  const withoutDocker = 'mkdir -p backup && export DOCKER_HOST=tcp://127.0.0.1:1'
  await t.rejects(inProject(`${withoutDocker} && bash -euc ${quoted(files)}`), 'no backup without Docker')
  await documented('Backup')
  const after = await createList('after the backup')
  await documented('Restore')
  t.equal(await subscribers(), before)
  await t.rejects(
    api(`/mailing_lists/${after}`),
    /not_found/,
    'the restore has nothing from after the backup',
  )
  const id = await createImport('restored', { type: 'upload_directory', filename: 'small.csv' })
  t.same(await finished(id), ['finished', fewRows], 'an upload from before the backup is restored')
  say('backup and restore')
}

/** A browser watches an import through the proxy, live. */
async function useConsole(t: Test, stack: Stack): Promise<void> {
  const { api, engine, key, importOfLargeFile, finished, say } = stack
  const socketPath = await engine.forward(8080)
  const listener = createServer((client) => {
    const proxy = connect(socketPath)
    pipeline(client, proxy, client, () => undefined)
  })
  await once(listener.listen(0, '127.0.0.1'), 'listening')
  const port = listeningPort(listener)
  const browser = await chromium.launch({ executablePath: chromiumPath!, args: ['--no-sandbox'] })
  t.teardown(async () => {
    await browser.close()
    listener.close()
  })
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text())
  })
  await page.goto(`http://localhost:${port}/`)
  t.equal(page.url(), `http://localhost:${port}/console/`)
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Mailing lists' }).waitFor()
  const id = await importOfLargeFile('the console')
  // Without the pause it could end before its page is open.
  await api(`/subscriber_imports/${id}/pause`, {})
  await page.goto(`http://localhost:${port}/console/imports/${id}`)
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByRole('img', { name: /^Rows a second: now / }).waitFor()
  await page.getByText('Finished', { exact: true }).waitFor({ timeout: 120_000 })
  t.same(await finished(id), ['finished', rows])
  t.same(errors, [])
  say('the console')
}

async function checkConfinement(t: Test, { compose, request }: Stack): Promise<void> {
  const paths = ['/metrics', '/readyz', '/healthz', '/metrics/', '/METRICS']
  t.same(
    await Promise.all(paths.map(async (name) => (await request(name)).status)),
    paths.map(() => 404),
  )
  const confined = await compose(
    `exec -T engine sh -c 'touch /x /app/x 2>/dev/null; id -u; grep -c "^CapBnd.*0000000000000000" /proc/1/status; grep NoNewPrivs /proc/1/status'`,
  )
  t.same(confined.split(/\s+/), ['1000', '1', 'NoNewPrivs:', '1'])
}

async function killControlPlane(t: Test, { engine, compose, containers, request }: Stack): Promise<void> {
  const [killed] = await containers('control-plane')
  let [killAt, killedAt] = [0, 0]
  // Requests may wait until the killed one's transactions end, after 12 to 16 s.
  const replies = await sendDuring(
    t,
    request,
    async () => {
      await sleep(1_000)
      killAt = Date.now()
      await engine.run(`docker kill ${killed}`)
      killedAt = Date.now()
      await sleep(2_000)
      await engine.run(`docker start ${killed}`)
    },
    20_000,
  )
  const wasInProgress = ({ sentAt, answer }: Reply) =>
    sentAt > killAt - 1_000 && sentAt < killedAt && answer !== '503'
  t.same(
    lost(replies.filter((reply) => !wasInProgress(reply))),
    [],
    'only requests in progress at the kill are lost',
  )
  t.ok(lost(replies).length <= 4, lost(replies).join())
  await compose('up --detach --wait --no-recreate')
}

async function stopProxy(
  t: Test,
  { engine, containers, request, api, eventsOf, importOfLargeFile }: Stack,
): Promise<void> {
  const [proxy] = await containers('proxy')
  // The events of a paused import don't end.
  const id = await importOfLargeFile('a stop of the proxy')
  await api(`/subscriber_imports/${id}/pause`, {})
  const stream = await eventsOf(id)
  const streamEnded = stream.text().catch(() => '')
  let [stopAt, stoppedAt, answersAt] = [0, 0, 0]
  const replies = await sendDuring(t, request, async () => {
    await sleep(1_000)
    stopAt = Date.now()
    await engine.run(`docker stop ${proxy}`)
    stoppedAt = Date.now()
    t.equal(await engine.run(`docker inspect ${proxy} --format '{{.State.ExitCode}}'`), '0')
    await engine.run(`docker start ${proxy}`)
    const answers = () =>
      request('/svc/api/v2/mailing_lists').then(
        ({ status }) => status,
        () => 0,
      )
    await until('the API', answers, (status) => status === 200, 30_000)
    answersAt = Date.now()
  })
  await streamEnded
  await api(`/subscriber_imports/${id}/cancel`, {})
  // The grace is 2 s; Docker would kill it after 10 s.
  t.ok(stoppedAt - stopAt < 6_000, `it stops in ${stoppedAt - stopAt} ms`)
  t.same(lost(replies.filter(({ sentAt }) => sentAt < stopAt || sentAt > answersAt)), [])
  t.same(
    lost(replies).filter((answer) => /\d/.test(answer)),
    [],
    'requests during the stop get no connection, and no error of the proxy',
  )
}

async function checkPrometheus(t: Test, { askPrometheus }: Stack): Promise<void> {
  const up = async () => {
    const { data } = await askPrometheus('targets')
    const targets = data.activeTargets.filter((target: Json) => target.health === 'up')
    return targets.map((target: Json) => target.labels.job).sort()
  }
  const wanted = [
    'prometheus',
    ...Array(2).fill('rollcall-control-plane'),
    ...Array(2).fill('rollcall-engine'),
    'rollcall-ftp',
  ]
  t.same(await until('all targets', up, (jobs) => jobs.length === wanted.length, 60_000), wanted)
  const rules = await until(
    'an evaluation of all rules',
    async (): Promise<Json[]> =>
      (await askPrometheus('rules')).data.groups.flatMap((group: Json) => group.rules),
    (all) => all.length > 20 && all.every(({ health }) => health !== 'unknown'),
    60_000,
  )
  t.same(
    rules.filter(({ health }) => health !== 'ok'),
    [],
  )
  const dashboards = path.join(root, 'docs/monitoring/grafana/dashboards')
  const failed: string[] = []
  let queries = 0
  for (const name of (await command('ls', [dashboards])).split('\n')) {
    const text = await readFile(path.join(dashboards, name), 'utf8')
    for (const [, quoted] of text.matchAll(/"expr": ("(?:[^"\\]|\\.)*")/g)) {
      const query = JSON.parse(quoted!).replaceAll('$__rate_interval', '1m').replaceAll('$process', '.*')
      queries++
      const reply = await askPrometheus(`query?query=${encodeURIComponent(query)}`)
      if (reply.status !== 'success') failed.push(`${name}: ${query}`)
    }
  }
  t.same(failed, [])
  t.ok(queries >= 100, `${queries} queries`)
}

async function upgrade(t: Test, stack: Stack): Promise<void> {
  const { git, before, engine, compose, containers, writeSettings, say } = stack
  const { request, finished, importOfLargeFile, rollingUpgrade } = stack
  const imageOf = (container: string) => engine.run(`docker inspect ${container} --format '{{.Image}}'`)
  const valueIn = (container: string, name: string) => engine.run(`docker exec ${container} printenv ${name}`)
  const kinds = ['engine', 'ftp', 'control-plane']
  const old = (await Promise.all(kinds.map(containers))).flat()
  const others = async () => [await containers('proxy'), await containers('mongodb')]
  const othersBefore = await others()
  const oldImage = await imageOf(old[0]!)
  await git('checkout', '-q', 'HEAD', '--', ...product)
  const id = await importOfLargeFile('under an upgrade')
  const replies = await sendDuring(t, request, async () => {
    await writeSettings({ USER_LOCKOUT_MINUTES: '31', ENGINES: '3', ENGINE_WORKERS: 'x' })
    await t.rejects(rollingUpgrade(), /a new engine is not healthy/)
    t.match(await compose('logs engine'), /ENGINE_WORKERS/, 'engines do not start with this setting')
    say('an upgrade that fails')
    await writeSettings({ ENGINE_WORKERS: '1' })
    await rollingUpgrade()
  })
  say('upgrade')
  t.same(lost(replies), [])
  const image = await engine.run("docker image inspect rollcall --format '{{.Id}}'")
  const now = await Promise.all(kinds.map(containers))
  t.same(
    now.map((ids) => ids.length),
    [3, 1, 2],
  )
  for (const container of now.flat()) {
    t.notOk(old.includes(container), 'it is new')
    t.equal(await imageOf(container), image, 'it has the new build')
  }
  for (const container of now[0]!) t.equal(await valueIn(container, 'ENGINE_WORKERS'), '1')
  for (const container of now[2]!) t.equal(await valueIn(container, 'USER_LOCKOUT_MINUTES'), '31')
  t.same(await others(), othersBefore, 'the proxy and MongoDB, which did not change, stay')
  const shallow =
    before === null && 'the clone is shallow and has no commit before: both builds were the same'
  await t.test('the upgrade begins with the image of the commit before', { skip: shallow }, async (t) =>
    t.not(image, oldImage),
  )
  t.same(await finished(id), ['finished', rows], 'an import in progress finishes')

  const all = async () => (await compose('ps --quiet')).split('\n').sort()
  const upgraded = await all()
  await compose('up --detach --wait')
  t.same(await all(), upgraded, 'the next start replaces nothing more')
  await writeSettings({ ENGINES: '2' })
  await compose('up --detach --wait')
  t.equal((await containers('engine')).length, 2)
  for (const options of ['', '--read-only']) {
    const said = await engine.run(`docker run --rm ${options} rollcall 2>&1; echo "exit code $?"`)
    t.match(said, /^[^\n]*MONGODB_URI is not set[^\n]*\nexit code 1$/, `no URI ${options}`)
  }
  say('starts after the upgrade')
}

async function killEachKind(t: Test, stack: Stack): Promise<void> {
  const { engine, compose, containers, say } = stack
  const { finished, importOfLargeFile } = stack
  const id = await importOfLargeFile('deaths')
  const restarts = (container: string) =>
    engine.run(`docker inspect ${container} --format '{{.RestartCount}} {{.State.Running}}'`)
  const killed = new Map<string, number>()
  for (const service of ['proxy', 'ftp', 'mongodb', 'control-plane', 'engine', 'prometheus', 'grafana']) {
    const container = (await containers(service))[0]!
    killed.set(container, parseInt(await restarts(container)))
    // After `docker kill` Docker applies no restart policy, so the process is killed from outside.
    await engine.run(`kill -9 $(docker inspect ${container} --format '{{.State.Pid}}')`)
  }
  for (const [container, before] of killed)
    await until(
      'a restart',
      () => restarts(container),
      (said) => parseInt(said) > before && said.endsWith('true'),
      60_000,
    )
  await compose('up --detach --wait --no-recreate')
  t.same(await finished(id), ['finished', rows])
  say('deaths')
}

async function stopAndStartAll(
  t: Test,
  { engine, compose, say, eventsOf, finished, importOfLargeFile }: Stack,
): Promise<void> {
  const id = await importOfLargeFile('a stop')
  const stream = await eventsOf(id)
  const streamEnded = stream.text().catch(() => '')
  await compose('stop')
  await streamEnded
  for (const service of ['control-plane', 'engine', 'ftp', 'proxy'])
    for (const container of (await compose(`ps --all --quiet ${service}`)).split('\n'))
      t.equal(await engine.run(`docker inspect ${container} --format '{{.State.ExitCode}}'`), '0', service)
  await compose('up --detach --wait')
  t.same(await finished(id), ['finished', rows], 'it resumes after the next start')
  say('stop and start')
}

async function useOwnDatabase(t: Test, stack: Stack): Promise<void> {
  const { checkout, engine, compose, containers, key, writeSettings, documented, certificate, say } = stack
  const { createImport, finished, smallFile, upload, rollingUpgrade } = stack
  await compose('down --volumes')
  // It runs in the bundled server's image and network, but is none of the project's services.
  await compose('run --detach --no-deps --name own-mongodb mongodb mongod --replSet rs0 --bind_ip_all')
  const config = "{_id: 'rs0', members: [{_id: 0, host: 'own-mongodb:27017'}]}"
  const initiate = `try { rs.status() } catch (e) { rs.initiate(${config}) }; if (!db.hello().isWritablePrimary) quit(1)`
  await until(
    'a primary',
    () =>
      engine.run(`docker exec own-mongodb mongosh --eval ${quoted(initiate)} && echo yes`).catch(() => ''),
    (said) => said.endsWith('yes'),
    60_000,
  )
  await documented('The key of secrets')
  await documented('Uploads in the database')
  await documented('Implicit TLS')
  await writeSettings({
    MONGODB_URI: 'mongodb://own-mongodb:27017/?replicaSet=rs0',
    CONTROL_PLANES: '1',
    ENGINES: '1',
  })
  await documented('A MongoDB of your own')
  t.same(await compose('ps --quiet mongodb'), '', 'the bundled server does not run')
  const [proxy] = await containers('proxy')
  await appendFile(path.join(checkout, 'docs/compose/Caddyfile'), '# A change.\n')
  await rollingUpgrade()
  t.same(await compose('ps --quiet mongodb'), '', 'nor after an upgrade')
  t.not((await containers('proxy'))[0], proxy, 'a changed proxy is replaced')
  await upload(smallFile, 'ftps://localhost:990/', '--cacert', certificate.cert)
  const id = await createImport('own', { type: 'url', url: `ftp://api:${key}@ftp:2121/small.csv` })
  t.same(await finished(id), ['finished', fewRows])
  t.notMatch(await compose('logs control-plane engine'), 'stored in the clear', 'the key is used')
  await engine.run('docker rm --force --volumes own-mongodb')
  say('a MongoDB of your own')
}

const noIdle = process.env['CI'] === 'true' && 'nothing is asserted, and CI has no 30 s for it'

t.test('the stack of the compose file loses nothing', { skip, timeout: 1_500_000 }, async (t) => {
  const prepared = await prepareStack(t)
  await t.test('the README command starts everything', (t) => startEverything(t, prepared))
  const stack = await openStack(t, prepared)
  await t.test(
    'the idle stack takes a share of a processor, and the run shows how much',
    { skip: noIdle },
    (t) => showIdleShare(t, stack),
  )
  await t.test('an import through each door ends, although an engine is killed', (t) =>
    importThroughEachDoor(t, stack),
  )
  await t.test('a lost key is replaced by the documented command', (t) => replaceLostKey(t, stack))
  await t.test('a backup is restored into an empty installation', { skip: stack.withoutTools }, (t) =>
    backUpAndRestore(t, stack),
  )
  await t.test('the proxy passes on no endpoint for operators, and no process has privileges', (t) =>
    checkConfinement(t, stack),
  )
  await t.test(
    'the console comes through the proxy',
    { skip: chromiumPath === undefined && 'chromium is not installed' },
    (t) => useConsole(t, stack),
  )
  await t.test('a control plane is killed and comes back', (t) => killControlPlane(t, stack))
  await t.test('the proxy stops within its grace, under load and with an open event stream', (t) =>
    stopProxy(t, stack),
  )
  await t.test('Prometheus has every target, rule and query', (t) => checkPrometheus(t, stack))
  await t.test('a new build and changed settings reach everything without a lost request', (t) =>
    upgrade(t, stack),
  )
  await t.test('each kind of container is restarted after its death, and an import finishes', (t) =>
    killEachKind(t, stack),
  )
  await t.test('a stop of everything ends each process with 0, and an import resumes after the start', (t) =>
    stopAndStartAll(t, stack),
  )
  await t.test('a MongoDB of your own takes the place of the bundled one', (t) => useOwnDatabase(t, stack))

  // The checkout above stands for the `git pull` of these commands.
  stack.page.under('Upgrades and changed settings')
  if (stack.withoutTools) for (const heading of ['Backup', 'Restore']) stack.page.under(heading)
  t.same(stack.page.unused, [], 'each command of docs/docker-compose.md is run')
})

/** In a folder that containers can read. */
async function makeReadableCertificate(folder: string) {
  await mkdir(folder)
  const certificate = await makeCertificate(folder, 'server', 'DNS:localhost')
  await command('chmod', ['-R', 'a+rX', folder])
  return certificate
}

/** Writes a file for an import of `count` addresses. Resolves to its path. */
async function writeRows(folder: string, name: string, count: number): Promise<string> {
  const text = `email\n${Array.from({ length: count }, (_, i) => `f${i}@example.com\n`).join('')}`
  await writeFile(path.join(folder, name), text)
  return path.join(folder, name)
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
