import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { Agent, fetch } from 'undici'
import { messageOf } from '../../shared/errors.ts'
import { findMongod } from '../../shared/mongod/find-mongod.ts'
import { createLogger } from '../../shared/logger.ts'
import { makeCertificate } from '../helpers/certificate.ts'
import { DocumentedCommands } from '../helpers/documented-commands.ts'
import { command, noDockerEngine, startDockerEngine } from '../helpers/docker-engine.ts'
import { missing } from '../helpers/missing-programs.ts'
import { basic, until, type Json } from '../helpers/service.ts'
import { makeStandInImages } from '../helpers/stand-in-images.ts'

/**
 * docker-compose.yml run for real: built and started by the README's command, in a Docker engine of its own. It takes
 * about five minutes, so it runs only where ROLLCALL_COMPOSE is set. ROLLCALL_COMPOSE_CACHE names a folder that
 * keeps the two Debian roots for the next run.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))
const skip =
  process.env['ROLLCALL_COMPOSE'] === undefined
    ? 'ROLLCALL_COMPOSE is not set'
    : noDockerEngine() || missing('git', 'curl', 'openssl')

t.test('the compose file', { skip, timeout: 1_500_000 }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-compose-'))
  const debian = path.join(process.env['ROLLCALL_COMPOSE_CACHE'] ?? folder, 'debian')
  await mkdir(path.dirname(debian), { recursive: true })
  const startedAt = Date.now()
  const say = (text: string) => t.comment(`${Math.round((Date.now() - startedAt) / 1000)} s: ${text}`)

  const engine = await startDockerEngine(folder, debian)
  t.teardown(async () => {
    await engine.run('docker compose down --volumes --timeout 15', { in: '/work/rollcall' }).catch(() => '')
    await engine.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const { binary: mongod } = await findMongod({
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log: createLogger({ process: 'test', level: 'warn' }),
    signal: AbortSignal.timeout(300_000),
  })
  const withoutTools = missing('mongodump', 'mongorestore')
  const databaseTools = withoutTools
    ? []
    : (await command('which', ['mongodump', 'mongorestore'])).trim().split('\n')
  await makeStandInImages({ engine, debian, mongod, databaseTools })
  say('the Docker engine and the stand-ins of the base images')

  // What a clone under a strict umask has: no file of it can be read by another user.
  const checkout = path.join(folder, 'rollcall')
  await command('sh', ['-c', 'umask 027 && git clone -q "$1" "$2"', 'sh', root, checkout])
  const compose = (args: string, timeoutMs = 600_000) =>
    engine.run(`docker compose ${args}`, { in: '/work/rollcall', timeoutMs })
  const key = randomBytes(24).toString('hex')
  const settings: Record<string, string> = {
    BOOTSTRAP_API_KEY: key,
    GRAFANA_ADMIN_PASSWORD: randomBytes(12).toString('hex'),
  }
  const writeSettings = (more: Record<string, string> = {}) => {
    Object.assign(settings, more)
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
    return writeFile(path.join(checkout, '.env'), lines.join(''))
  }
  await writeSettings()

  /** The product of the commit before the last one that changed it, with the deployment's files as they are now. */
  const product = ['shared', 'control-plane', 'engine', 'ftp', 'package.json', 'package-lock.json']
  const git = (...args: string[]) => command('git', ['-C', checkout, ...args])
  const changed = await git('log', '-1', '--format=%H', '--', ...product)
  const before = await git('rev-parse', '--verify', '--quiet', `${changed}~1`).catch(() => null)
  if (before !== null) await git('checkout', '-q', before, '--', ...product)

  await t.test('the README command starts everything', async (t) => {
    await t.resolves(compose('up --detach --build --wait'))
    say('compose up')
    const size = Number(await engine.run("docker image inspect rollcall --format '{{.Size}}'"))
    t.comment(`image: ${Math.round(size / 1e6)} MB, with the stand-in of the base image`)
  })

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
  const containers = async (service: string) => (await compose(`ps --quiet ${service}`)).split('\n')
  const rows = 300_000
  const file = path.join(folder, 'file.csv')
  await writeFile(file, `email\n${Array.from({ length: rows }, (_, i) => `f${i}@example.com\n`).join('')}`)
  const upload = (name: string, ...options: string[]) =>
    engine.runInNetwork('curl', [
      '-sSf',
      '-T',
      file,
      '-u',
      `api:${key}`,
      ...options,
      `ftp://localhost:2121/${name}`,
    ])

  await t.test('an import through each door, while an engine is killed', async (t) => {
    t.same(
      await finished(await createImport('inline', { type: 'json', content: 'email\nann@example.com\n' })),
      ['finished', 1],
    )
    await upload('file.csv')
    const id = await createImport('upload', { type: 'upload_directory', filename: 'file.csv' })
    const events = fetch(`http://localhost/svc/api/v2/subscriber_imports/${id}/events`, {
      dispatcher,
      headers: { authorization: basic(`api:${key}`) },
    }).then((reply) => reply.text())
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
    t.match(lastEvent, '"state":"finished"', 'events come through the proxy, to the last state')
    await engine.run(`docker start ${engineId}`)
    // A URL that leads back to this service's own FTP server, as a partner's would.
    await writeSettings({ URL_IMPORT_ALLOW: 'ftp' })
    await compose('up --detach --wait')
    const url = await createImport('url', { type: 'url', url: `ftp://api:${key}@ftp:2121/file.csv` })
    t.same(await finished(url), ['finished', rows])
    say('imports')
  })

  await t.test('FTP over TLS through the published ports', async (t) => {
    const tls = path.join(folder, 'tls')
    await mkdir(tls)
    const certificate = await makeCertificate(tls, 'ftp', 'DNS:localhost')
    await command('chmod', ['-R', 'a+rX', tls])
    await writeSettings({
      FTP_TLS_FOLDER: '/work/tls',
      FTP_TLS_CERT: `/tls/${path.basename(certificate.cert)}`,
      FTP_TLS_KEY: `/tls/${path.basename(certificate.key)}`,
    })
    await compose('up --detach --wait')
    await upload('tls.csv', '--ssl-reqd', '--cacert', certificate.cert)
    const id = await createImport('tls', { type: 'upload_directory', filename: 'tls.csv' })
    t.same(await finished(id), ['finished', rows])
  })

  await t.test('Prometheus has every target, rule and query', async (t) => {
    const ask = async (query: string): Promise<Json> =>
      (await fetch(`http://localhost/api/v1/${query}`, { dispatcher: prometheus })).json()
    const up = async () => {
      const { data } = await ask('targets')
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
    const { data } = await ask('rules')
    const rules = data.groups.flatMap((group: Json) => group.rules)
    t.ok(rules.length > 20)
    t.same(
      rules.filter((rule: Json) => rule.health === 'err'),
      [],
    )
    const dashboards = path.join(root, 'docs/monitoring/grafana/dashboards')
    const failed: string[] = []
    for (const name of (await command('ls', [dashboards])).split('\n')) {
      const text = await readFile(path.join(dashboards, name), 'utf8')
      for (const [, quoted] of text.matchAll(/"expr": ("(?:[^"\\]|\\.)*")/g)) {
        const query = JSON.parse(quoted!)
          .replaceAll('$__rate_interval', '1m')
          .replaceAll('$__interval', '30s')
        const reply = await ask(`query?query=${encodeURIComponent(query)}`)
        if (reply.status !== 'success') failed.push(`${name}: ${query}`)
      }
    }
    t.same(failed, [])
  })

  await t.test('nothing of the operators passes the proxy, and no process has rights', async (t) => {
    const paths = ['/metrics', '/readyz', '/healthz', '/metrics/', '/METRICS']
    t.same(
      await Promise.all(paths.map(async (name) => (await request(name)).status)),
      paths.map(() => 404),
    )
    const confined = await compose(
      `exec -T engine sh -c 'touch /x /app/x 2>/dev/null; id -u; grep -c "^CapBnd.*0000000000000000" /proc/1/status; grep NoNewPrivs /proc/1/status'`,
    )
    t.same(confined.split(/\s+/), ['1000', '1', 'NoNewPrivs:', '1'])
  })

  /** Requests every 50 ms until `event` is over; returns the replies that were not 200, by kind. */
  const lostDuring = async (event: () => Promise<unknown>): Promise<Record<string, number>> => {
    const lost: Record<string, number> = {}
    const pending: Promise<void>[] = []
    let sent = 0
    const send = (kind: string, body?: unknown) => {
      sent += 1
      const reply = request('/svc/api/v2/mailing_lists', body)
      pending.push(
        reply
          .then(
            ({ status }) => String(status),
            (error: unknown) => messageOf(error),
          )
          .then((answer) => {
            if (answer !== '200') lost[`${kind} ${answer}`] = (lost[`${kind} ${answer}`] ?? 0) + 1
          }),
      )
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
    await Promise.all(pending)
    t.comment(`${sent} requests, not answered with 200: ${JSON.stringify(lost)}`)
    return lost
  }
  const sum = (lost: Record<string, number>) => Object.values(lost).reduce((a, b) => a + b, 0)

  await t.test('a control plane is killed and comes back', async (t) => {
    const [killed] = await containers('control-plane')
    const lost = await lostDuring(async () => {
      await sleep(1_000)
      await engine.run(`docker kill ${killed}`)
      await sleep(2_000)
      await engine.run(`docker start ${killed}`)
      await sleep(3_000)
    })
    t.ok(sum(lost) <= 4, `only what it had in its hands is lost: ${JSON.stringify(lost)}`)
    await compose('up --detach --wait --no-recreate')
  })

  await t.test('a new build and a changed setting reach everything without a lost request', async (t) => {
    if (before !== null) await git('checkout', '-q', 'HEAD', '--', ...product)
    const upgrade = () =>
      engine.run('sh docs/compose/rolling-upgrade.sh', { in: '/work/rollcall', timeoutMs: 600_000 })
    const old = await containers('control-plane')
    const id = await createImport('under an upgrade', { type: 'upload_directory', filename: 'file.csv' })
    await writeSettings({ USER_LOCKOUT_MINUTES: '31', ENGINE_WORKERS: '1' })
    t.same(await lostDuring(upgrade), {})
    const now = await containers('control-plane')
    t.same(now.length, 2)
    t.same(
      now.filter((container) => old.includes(container)),
      [],
      'all are new',
    )
    t.match(await compose('exec -T control-plane env'), 'USER_LOCKOUT_MINUTES=31')
    t.same(await finished(id), ['finished', rows], 'an import goes on meanwhile')
    for (const options of ['', '--read-only']) {
      const said = await engine.run(`docker run --rm ${options} rollcall 2>&1; echo "exit code $?"`)
      t.match(said, /MONGODB_URI is not set.*exit code 1$/s, `no URI ${options}`)
    }
    say('upgrade')
  })

  await t.test('more engines stay at the next start', async (t) => {
    await writeSettings({ ENGINES: '3' })
    await compose('up --detach --wait')
    t.equal((await containers('engine')).length, 3)
    await writeSettings({ ENGINES: '2' })
    await compose('up --detach --wait')
    t.equal((await containers('engine')).length, 2)
  })

  await t.test('each kind of container is killed under an import', async (t) => {
    const id = await createImport('kills', { type: 'upload_directory', filename: 'file.csv' })
    for (const service of ['proxy', 'ftp', 'mongodb', 'control-plane', 'engine']) {
      const [container] = await containers(service)
      await engine.run(`docker kill ${container} && docker start ${container}`)
    }
    await compose('up --detach --wait --no-recreate')
    t.same(await finished(id), ['finished', rows])
  })

  await t.test('an open event stream holds back no stop, and an import survives it', async (t) => {
    const counts = async () => (await api('/subscriber_counts')).counts.active
    const id = await createImport('a stop', { type: 'upload_directory', filename: 'file.csv' })
    const stream = await fetch(`http://localhost/svc/api/v2/subscriber_imports/${id}/events`, {
      dispatcher,
      headers: { authorization: basic(`api:${key}`) },
    })
    const streamEnded = stream.text().catch(() => '')
    const stoppedAt = Date.now()
    await compose('stop proxy')
    t.ok(Date.now() - stoppedAt < 6_000, `the proxy stops in ${Date.now() - stoppedAt} ms`)
    await compose('stop')
    await streamEnded
    for (const service of ['control-plane', 'engine', 'ftp', 'proxy'])
      for (const container of (await compose(`ps --all --quiet ${service}`)).split('\n'))
        t.equal(await engine.run(`docker inspect ${container} --format '{{.State.ExitCode}}'`), '0', service)
    await compose('down')
    await compose('up --detach --wait')
    t.same(await finished(id), ['finished', rows], 'it goes on after the next start')
    const before = await counts()
    await compose('restart control-plane')
    await until(
      'the API',
      () => counts().catch(() => null),
      (active) => active === before,
      60_000,
    )
    say('stop and start')
  })

  const page = new DocumentedCommands('docker-compose.md')
  const documented = async (heading: string): Promise<string> => {
    const said: string[] = []
    for (const commands of page.under(heading))
      said.push(
        await engine.run(`bash -euc ${quoted(commands)}`, { in: '/work/rollcall', timeoutMs: 600_000 }),
      )
    return said.join('\n')
  }
  const subscribers = async () => (await api('/subscriber_counts')).counts.active

  await t.test('a lost key', async (t) => {
    const recovered = (await documented('A lost key')).trim()
    const reply = await fetch('http://localhost/svc/api/v2/mailing_lists', {
      dispatcher,
      headers: { authorization: basic(`api:${recovered}`) },
    })
    t.equal(reply.status, 200)
  })

  await t.test('a backup, restored into an empty installation', { skip: withoutTools }, async (t) => {
    const before = await subscribers()
    t.ok(before > rows)
    await documented('Backup')
    const after = await createList('after the backup')
    await documented('Restore')
    t.equal(await subscribers(), before)
    await t.rejects(api(`/mailing_lists/${after}`), /not_found/, 'what came after the backup is not there')
    const id = await createImport('restored', { type: 'upload_directory', filename: 'file.csv' })
    t.same(await finished(id), ['finished', rows], 'an upload of before is there')
    say('backup and restore')
  })

  await t.test('a MongoDB of your own', async (t) => {
    await compose('down --volumes')
    // It has the bundled server's image and network, and is none of the project's services.
    await compose('run --detach --no-deps --name own-mongodb mongodb mongod --replSet rs0 --bind_ip_all')
    const initiate = "rs.initiate({_id: 'rs0', members: [{_id: 0, host: 'own-mongodb:27017'}]})"
    await until(
      'a primary',
      () =>
        engine.run(`docker exec own-mongodb mongosh --eval ${quoted(initiate)} && echo yes`).catch(() => ''),
      (said) => said === 'yes',
      60_000,
    )
    await writeSettings({ MONGODB_URI: 'mongodb://own-mongodb:27017/?replicaSet=rs0' })
    await documented('A MongoDB of your own')
    t.same(await compose('ps --quiet mongodb'), '', 'the bundled server does not run')
    await upload('own.csv')
    const id = await createImport('own', { type: 'upload_directory', filename: 'own.csv' })
    t.same(await finished(id), ['finished', rows])
    await engine.run('docker rm --force --volumes own-mongodb')
    say('a MongoDB of your own')
  })

  // With folders of this test in place of the page's.
  page.under('FTP over TLS')
  // After `git pull`, which the test's checkout stands for.
  page.under('Upgrades and changed settings')
  t.same(page.unused, [], 'each command of docs/docker-compose.md is run')
})

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
