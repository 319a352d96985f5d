import { randomBytes } from 'node:crypto'
import t from 'tap'
import { endedStates } from '../../shared/contract/import-state.ts'

import { answer, head, startRawWebServer } from '../helpers/raw-web-server.ts'
import { startService, until, type Json, type Service } from '../helpers/service.ts'

/** The work of one organization, however much or slow it is, delays no other organization. */

t.setTimeout(600_000)

/** A key and a mailing list of a new organization. */
interface Organization {
  key: string
  listId: number
}

async function createOrganization(service: Service): Promise<Organization> {
  const name = `Organization ${randomBytes(4).toString('hex')}`
  const { id } = await service.post('/organizations', { organization: { name } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, {
    api_key: { name, role: 'organization_admin' },
  })
  return { key, listId: await createListOf(service, key) }
}

async function createListOf(service: Service, key: string): Promise<number> {
  const name = `List ${randomBytes(4).toString('hex')}`
  return (await post(service, key, '/mailing_lists', { mailing_list: { name } })).id
}

async function post(service: Service, key: string, path: string, body: Json): Promise<Json> {
  const answer = await service.call('POST', path, body, { key })
  if (answer.body?.success !== true) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
  return answer.body.data
}

const createImport = (service: Service, { key, listId }: Organization, more: Json): Promise<Json> =>
  post(service, key, `/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], ...more },
  })

const row = { file_source: { type: 'json', content: 'email\nann@example.com\n' } }

/** Imports a row. Resolves to how many dry runs of others ended between the creation of that import and its end. */
async function dryRunsMeanwhile(service: Service, organization: Organization): Promise<number> {
  const { imports } = service.collections
  const before = await countEnded(service)
  const { id } = await createImport(service, organization, row)
  await until(
    `the end of import ${id}`,
    () => imports.findOne({ _id: id }, { projection: { state: 1 } }),
    (document) => document?.state === 'finished',
    120_000,
    5,
  )
  return (await countEnded(service)) - before
}

const countEnded = (service: Service): Promise<number> =>
  service.collections.imports.countDocuments({ 'options.dry_run': true, state: { $in: [...endedStates] } })

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!

t.test('an import of one row passes hundreds of dry runs that are due at one moment', async (t) => {
  const dryRuns = Number(process.env['ROLLCALL_TEST_DRY_RUNS'] ?? 400)
  const service = await startService(t, ['control-plane', 'engine'])
  const [many, small] = [await createOrganization(service), await createOrganization(service)]
  const begins_at = new Date(Date.now() + 3_600_000).toISOString()
  for (let i = 0; i < dryRuns; i += 20) {
    const some = Array.from({ length: Math.min(20, dryRuns - i) }, () =>
      createImport(service, many, { ...row, dry_run: true, begins_at }),
    )
    await Promise.all(some)
  }
  // Created one after the other, and due at one moment.
  await service.collections.imports.updateMany({ state: 'scheduled' }, { $set: { begins_at: new Date() } })
  const meanwhile = [await dryRunsMeanwhile(service, small)]
  const { imports } = service.collections
  const { finished_at } = (await imports.findOne({ 'options.dry_run': { $ne: true } }))!
  const begun = await imports.countDocuments({ 'options.dry_run': true, started_at: { $lt: finished_at! } })
  t.ok(begun < dryRuns / 2, `${begun} of ${dryRuns} dry runs began before it ended`)
  while (meanwhile.length < 9 && (await countEnded(service)) < dryRuns - 64)
    meanwhile.push(await dryRunsMeanwhile(service, small))
  // An organization has at most 32 imports started. Counted in imports, the bound is also right on a busy machine;
  // test/e2e/attacks.test.ts measures the time.
  t.ok(
    median(meanwhile) <= 32,
    `beside each import of one row ended so many dry runs: ${meanwhile.join(', ')}`,
  )
})

t.test('servers of other organizations that answer slowly', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  const web = await startRawWebServer(t, {
    // The server sends the head, and then nothing until the test ends.
    '/slow': (socket) => socket.write(head(200, { 'content-length': 1_000 })),
    '/fast': answer(200, {}, 'ann@example.com\n'),
  })
  const createDownload = (organization: Organization, path: string): Promise<Json> =>
    createImport(service, organization, {
      file_source: { type: 'url', url: `http://127.0.0.1:${web.port}${path}` },
      file_format: { csv_has_headers: false },
    })
  const downloadsInHand = (): Promise<number> =>
    service.collections.imports.countDocuments({ state: 'downloading', 'lease.token': { $ne: null } })

  const slow = await Promise.all([createOrganization(service), createOrganization(service)])
  for (const organization of slow) {
    for (let i = 0; i < 10; i += 1) {
      const listId = await createListOf(service, organization.key)
      await createDownload({ ...organization, listId }, '/slow')
    }
  }
  await until(
    'their downloads',
    () => downloadsInHand(),
    (count) => count >= 8,
  )
  for (const other of [await createOrganization(service), await createOrganization(service)]) {
    const { id } = await createDownload(other, '/fast')
    const end = await until(
      `the end of import ${id}`,
      () => service.collections.imports.findOne({ _id: id }, { projection: { state: 1 } }),
      (document) => document !== null && endedStates.includes(document.state as never),
      20_000,
    )
    t.equal(end?.state, 'finished', 'while the slow ones are in hand')
  }
  t.equal(web.requests.get('/slow')?.length, 8, 'four of each organization')
})
