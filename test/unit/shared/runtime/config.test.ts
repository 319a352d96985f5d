import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { programs } from '../../../../control-plane/cli/processes.ts'
import {
  loadClientSettings,
  loadSettings,
  parsePortRange,
  settingsTable,
} from '../../../../shared/runtime/config.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const read = (file: string) => readFile(path.join(root, file), 'utf8')

t.test('without any setting the defaults apply', async (t) => {
  t.match(loadSettings({}), {
    HTTP_HOST: '127.0.0.1',
    HTTP_PORT: 8080,
    FTP_PORT: 2121,
    MONGODB_DATABASE: 'rollcall',
    STAGING: 'disk',
    URL_IMPORT_ALLOW: [],
  })
})

t.test('a blank value is the same as none', async (t) => {
  t.equal(loadSettings({ HTTP_PORT: ' ' }).HTTP_PORT, 8080)
})

t.test('all wrong settings are named at once, with their values but for secrets', async (t) => {
  const secrets = { MONGODB_URI: 'mongo://admin:secret@db/x', BOOTSTRAP_API_KEY: "'secret_0123456789'" }
  const wrong = {
    HTTP_PORT: '70000',
    ENGINE_WORKERS: 'many',
    FTP_PASSIVE_PORTS: '9-8',
    LOG_LEVEL: 'loud',
    TRUSTED_PROXIES: 'proxy.example',
    URL_IMPORT_ALLOW: '10.0.0.0/8,300.1.1.1/99',
  }
  try {
    loadSettings({ ...wrong, ...secrets })
    t.fail('accepted')
  } catch (error) {
    for (const [name, value] of Object.entries(wrong))
      t.match((error as Error).message, new RegExp(`setting ${name} must .*\\(it is "${value}"\\)`))
    for (const name of Object.keys(secrets))
      t.match((error as Error).message, new RegExp(`setting ${name} must `))
    t.notMatch((error as Error).message, 'secret@')
    t.notMatch((error as Error).message, 'secret_0')
  }
})

t.test('TLS of the FTP server needs a certificate and its key', async (t) => {
  const pair = { FTP_TLS_CERT: 'x.crt', FTP_TLS_KEY: 'x.key' }
  t.match(loadSettings({ ...pair, FTPS_PORT: '990', FTP_TLS_REQUIRED: 'true' }), {
    FTPS_PORT: 990,
    FTP_TLS_REQUIRED: true,
  })
  t.match(loadSettings({ FTP_TLS_REQUIRED: 'false' }), { FTP_TLS_REQUIRED: false })
  for (const alone of [
    { FTP_TLS_CERT: 'x.crt' },
    { FTP_TLS_KEY: 'x.key' },
    { FTPS_PORT: '990' },
    { FTP_TLS_REQUIRED: 'true' },
  ])
    t.throws(
      () => loadSettings(alone),
      new RegExp(`setting ${Object.keys(alone)[0]} needs both FTP_TLS_CERT and FTP_TLS_KEY`),
    )
  t.throws(() => loadSettings({ FTP_TLS_REQUIRED: 'maybe' }), /FTP_TLS_REQUIRED must be true or false/)
})

t.test('port ranges are read, and bad ones refused', async (t) => {
  t.same(parsePortRange('2122-2222'), { first: 2122, last: 2222 })
  t.same(parsePortRange('0'), { first: 0, last: 0 })
  for (const text of ['2122', '0-5', '5-4', '1-70000', 'a-b', '']) t.equal(parsePortRange(text), null, text)
})

t.test("the README's table is made from the settings", async (t) => {
  const readme = await read('README.md')
  t.ok(readme.includes(settingsTable()), 'run `npm run readme` after a change of the settings')
})

t.test("`npm start`, a program's own script and the image start it with the same flags", async (t) => {
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Record<string, string> }
  const [dockerfile, compose] = [await read('Dockerfile'), await read('docker-compose.yml')]
  for (const [name, { file, environment }] of Object.entries(programs)) {
    const { NODE_OPTIONS, NODE_COMPILE_CACHE, ...others } = environment as Record<string, string>
    const args = [...(NODE_OPTIONS?.split(' ') ?? []), path.relative(root, file)]
    const variables = Object.entries(others).map(([variable, value]) => `${variable}=${value}`)
    const cache = `NODE_COMPILE_CACHE=${path.relative(root, NODE_COMPILE_CACHE!)}`
    t.equal(scripts[name], [...variables, cache, 'exec node', ...args].join(' '), name)
    for (const variable of variables) t.ok(dockerfile.includes(`    ${variable} `))
    t.ok(compose.includes(`    command: [${args.join(', ')}]\n`))
  }
})

t.test('networks and host names are told from mistyped addresses', async (t) => {
  const isTaken = (name: string, value: string): boolean => {
    try {
      loadSettings({ [name]: value })
      return true
    } catch {
      return false
    }
  }
  for (const value of [
    ...['10.0.0.0/8', '10.1.2.3', 'fd00::/8', '::1', 'files.intranet'],
    ...['localhost', 'a_b.example.', 'x.1a', '0xen.example'],
  ])
    t.ok(isTaken('URL_IMPORT_ALLOW', value), value)
  for (const value of [
    ...['300.1.1.1', '10.0.0.0/33', '1.2.3', '0x7f000001', '0x7f.1', '127.0X1.'],
    ...['0x', 'fd00::/129', '10.0.0.0/8/8', '10.0.0.0/', 'a b', 'http://x'],
  ])
    t.notOk(isTaken('URL_IMPORT_ALLOW', value), value)
  for (const value of ['300.1.1.1', '10.0.0.0/33', ':::']) t.notOk(isTaken('TRUSTED_PROXIES', value), value)
})

t.test('credentials in the URLs of settings are refused and never quoted', async (t) => {
  for (const value of ['ftp://admin:TOPSECRET@host', 'http://admin:TOPSECRET@host'])
    t.throws(() => loadSettings({ PUBLIC_URL: value }), { message: /^(?=.*PUBLIC_URL)(?!.*TOPSECRET)/ })
  for (const [name, value] of [
    ['ROLLCALL_FTP', 'sftp://api:TOPSECRET@host:22'],
    ['ROLLCALL_FTP', 'ftp://api:TOPSECRET@host:21'],
    ['ROLLCALL_URL', 'httpx://api:TOPSECRET@host'],
    ['ROLLCALL_URL', 'http://api:TOPSECRET@host'],
  ] as const)
    t.throws(() => loadClientSettings({ [name]: value }), {
      message: new RegExp(`^(?=.*${name})(?!.*TOPSECRET)`),
    })
})
