import t from 'tap'
import { commandLine } from '../helpers/command-line.ts'
import { startService } from '../helpers/service.ts'

/** `rollcall audit` and `rollcall whoami` against a running service. */

const service = await startService(t, ['control-plane', 'ftp'])
const { call } = await commandLine(t, service)

const [org] = (await call(['org', 'create', '--name', 'Acme', '--json'])).json
const [key] = (
  await call([
    'key',
    'create',
    '--name',
    'Ann',
    '--role',
    'organization_admin',
    '--org',
    String(org.id),
    '--json',
  ])
).json
const asAnn = { ROLLCALL_API_KEY: key.key as string }
for (const name of ['News', 'Offers', 'Letters']) await call(['list', 'create', '--name', name], asAnn)

t.test('audit lists who changed what, newest first', async (t) => {
  const all = await call(['audit'], asAnn)
  t.equal(all.code, 0)
  const rows = all.out
    .trimEnd()
    .split('\n')
    .map((line) => line.trimEnd().split(/ {2,}|\t/))
  t.same(
    rows.map(([, action, type, , name, by, address]) => [action, type, name, by, address]),
    [
      ['action', 'record_type', 'record_name', 'by', 'user_name'],
      ['created', 'mailing_list', 'Letters', 'Ann', '127.0.0.1'],
      ['created', 'mailing_list', 'Offers', 'Ann', '127.0.0.1'],
      ['created', 'mailing_list', 'News', 'Ann', '127.0.0.1'],
      ['created', 'api_key', 'Ann', 'First key', '127.0.0.1'],
      ['created', 'organization', 'Acme', 'First key', '127.0.0.1'],
    ],
  )
  const two = await call(['audit', '--limit', '2', '--json'], asAnn)
  t.match(two.json, [[{ record_name: 'Letters' }, { record_name: 'Offers' }]])
  t.equal(two.json[0].length, 2)
  const keys = ['audit', '--record', 'api_key,organization', '--action', 'created', '--json']
  t.match((await call(keys, asAnn)).json, [[{ record_id: key.id }, { record_id: org.id }]])
  t.match(
    (
      await call([
        'audit',
        '--record',
        'organization',
        '--id',
        String(org.id),
        '--org',
        String(org.id),
        '--json',
      ])
    ).json,
    [[{ record_name: 'Acme' }]],
  )
  t.same((await call(['audit', '--key', '999999', '--json'], asAnn)).json, [[]])
  t.same((await call(['audit', '--until', '2026-01-31T08:00', '--json'], asAnn)).json, [[]])
})

t.test('audit says what is wrong with its options', async (t) => {
  t.match(await call(['audit', '--action', 'looked'], asAnn), {
    code: 1,
    err: /action must be one or more of/,
  })
  t.match(await call(['audit', '--since', 'yesterday'], asAnn), { code: 1, err: /since must be ISO 8601/ })
  t.match(await call(['audit', '--limit', 'many'], asAnn), { code: 2 })
  t.match(await call(['audit', '--org', '1'], asAnn), { code: 1, err: /no organization 1/ })
})

t.test('whoami shows the key, its organization and its role', async (t) => {
  t.match((await call(['whoami', '--json'], asAnn)).json, [
    { api_key: { id: key.id, name: 'Ann' }, organization: { id: org.id, name: 'Acme' }, user: null },
  ])
  const { code, out } = await call(['whoami'], asAnn)
  t.equal(code, 0)
  t.match(out, new RegExp(`^api_key +Ann \\(${key.id}\\)$`, 'm'))
  t.match(out, /^role +organization_admin$/m)
  t.match(await call(['whoami'], { ROLLCALL_API_KEY: 'wrong_key_0123456789' }), { code: 1 })
})
