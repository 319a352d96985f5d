import { readFile } from 'node:fs/promises'
import t from 'tap'
import { loadSettings, parsePortRange, settingsTable } from '../../shared/config.ts'

t.test('without any setting the defaults hold', async (t) => {
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

t.test('all wrong settings are named at once, with their values', async (t) => {
  const wrong = {
    HTTP_PORT: '70000',
    ENGINE_WORKERS: 'many',
    MONGODB_URI: 'postgres://x',
    BOOTSTRAP_API_KEY: 'short',
    FTP_PASSIVE_PORTS: '9-8',
    LOG_LEVEL: 'loud',
    TRUSTED_PROXIES: 'proxy.example',
  }
  try {
    loadSettings(wrong)
    t.fail('accepted')
  } catch (error) {
    for (const [name, value] of Object.entries(wrong))
      t.match((error as Error).message, new RegExp(`setting ${name} must .*\\(it is "${value}"\\)`))
  }
})

t.test('TLS of the FTP server takes a certificate and its key', async (t) => {
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

t.test('port ranges', async (t) => {
  t.same(parsePortRange('2122-2222'), { first: 2122, last: 2222 })
  t.same(parsePortRange('0'), { first: 0, last: 0 })
  for (const text of ['2122', '0-5', '5-4', '1-70000', 'a-b', '']) t.equal(parsePortRange(text), null, text)
})

t.test("the README's table is made from the settings", async (t) => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  t.ok(readme.includes(settingsTable()), 'run `npm run readme` after a change of the settings')
})
