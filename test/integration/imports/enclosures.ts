import t from 'tap'
import { countsOf, createList, importText, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

/** What damaged enclosures, escapes and files without a record come to (decisions 2.4). */

const { call, collections } = service

const fields = [
  { name: 'name', field_type: 'text' },
  { name: 'city', field_type: 'text' },
]
const people = ['a', 'b', 'c', 'd', 'e'].map((name) => `${name}@example.com`)
const keepsOnlyThese = { overwrite: true, deactivate_subscribers_not_in_import: true }

async function listOfPeople(): Promise<{ id: number }> {
  const list = await createList(service, fields)
  await importText(service, list.id, `email\n${people.join('\n')}\n`)
  return list
}

/** Everybody of a list by the address's first letter: the status, and the values of the fields. */
async function everybody(listId: number): Promise<Record<string, string>> {
  const found = await collections.subscribers.find({ mailing_list_id: listId }).sort({ _id: 1 }).toArray()
  return Object.fromEntries(
    found.map(({ email, status, ...subscriber }) => [
      email[0],
      [status, ...Object.values((subscriber as Json).custom_fields ?? {})].join(' '),
    ]),
  )
}

const failedLog = async (view: Json) => (await call('GET', `/subscriber_imports/${view.id}/logs/failed`)).text

t.test('a lost closing enclosure costs its own line, and nobody of the next ones', async (t) => {
  const list = await listOfPeople()
  const content = `email,name\n${people[0]},A\n${people[1]},B\n${people[2]},"C\n${people[3]},"Dan"\n${people[4]},E\n`
  const view = await importText(service, list.id, content, {
    ...keepsOnlyThese,
    column_mapping: ['email', 'name'],
  })
  // The line of c has no identity, as an unterminated record has none.
  t.same(countsOf(view), { updated: 4, failed: 1, deactivated: 1 })
  t.match(await failedLog(view), /"c@example.com,""C",.*unterminated enclosure, line 4/)
  t.match(await everybody(list.id), { c: 'deactivated', d: 'active Dan' })
})

t.test('where a record may have swallowed others, the import says so and deactivates nobody', async (t) => {
  const content = `email,name,size\n${people[0]},"Lee, Jr,plain\n${people[1]},Bob,5"\n${people[2]},Cy,6\n`
  for (const isDryRun of [true, false]) {
    const list = await listOfPeople()
    const options = { ...keepsOnlyThese, dry_run: isDryRun, column_mapping: ['email', 'name', null] }
    const view = await importText(service, list.id, content, options)
    t.same(countsOf(view), { updated: 2 })
    t.match(view.warnings, [
      /^1 record may have swallowed others, the first at line 2: .*is a closing enclosure missing\?$/,
      /^deactivate_subscribers_not_in_import deactivates no subscriber, because records of the file may have swallowed others/,
    ])
    t.match(await everybody(list.id), { b: 'active', d: 'active', e: 'active' })
  }
  const list = await listOfPeople()
  const header = `email,"name,size\n${people[0]},A,5"\n${people[1]},B,6\n`
  const view = await importText(service, list.id, header, {
    ...keepsOnlyThese,
    column_mapping: ['email', 'name', null],
  })
  t.match(view.warnings, [/swallowed others, the first at line 1/, /deactivates no subscriber/])
  t.match(await everybody(list.id), { a: 'active' })
})

t.test('several lines in a cell are no reason for a warning', async (t) => {
  const list = await listOfPeople()
  const content = people.map((email) => `${email},"one\ntwo, ask x@example.com",Rome`).join('\n')
  const view = await importText(service, list.id, `email,name,city\n${content}\n`, {
    ...keepsOnlyThese,
    column_mapping: ['email', 'name', 'city'],
  })
  t.match([countsOf(view), view.warnings], [{ updated: 5 }, []])
})

t.test('blanks before an enclosure are dropped as those behind it are', async (t) => {
  const list = await createList(service, fields)
  const content = [
    'email, name, city',
    `${people[0]}, "Lee, Ann"`,
    `${people[1]}, "May, Bob" , Rome`,
    `${people[2]},\t"Cy", "Oslo"`,
    ` "${people[3]}",D,`,
  ].join('\n')
  const view = await importText(service, list.id, content, { column_mapping: ['email', 'name', 'city'] })
  t.match([countsOf(view), view.warnings], [{ added: 4 }, []])
  t.same(await everybody(list.id), {
    a: 'active Lee, Ann',
    b: 'active May, Bob Rome',
    c: 'active Cy Oslo',
    d: 'active D',
  })
})

/** As MySQL writes: enclosures escaped with a backslash. */
const mysql = [
  'email,name,city',
  `"${people[0]}","12\\"","Rome"`,
  `"${people[1]}","ok","the \\"Bay\\""`,
  `"${people[2]}","x","6\\""`,
  `"${people[3]}",\\N,"C:\\\\dir\\x"`,
].join('\n')
const columns = { column_mapping: ['email', 'name', 'city'] }

t.test('a backslash before an enclosure is a warning, and an escape where the request says so', async (t) => {
  const plain = await importText(service, (await listOfPeople()).id, mysql, columns)
  t.match(plain.warnings, [
    /^2 records have text behind a closing enclosure, the first at line 2: /,
    /^3 records have a backslash before an enclosure, the first at line 2: .* csv_field_escape$/,
  ])
  const list = await listOfPeople()
  const view = await importText(service, list.id, mysql, {
    ...columns,
    overwrite: true,
    file_format: { csv_field_escape: '\\' },
  })
  t.match([countsOf(view), view.warnings], [{ updated: 4 }, []])
  t.equal(view.file_format.csv_field_escape, '\\')
  t.same(await everybody(list.id), {
    a: 'active 12" Rome',
    b: 'active ok the "Bay"',
    c: 'active x 6"',
    d: 'active C:\\dir\\x',
    e: 'active',
  })
})

t.test('the failed log of a file with an escape imports again', async (t) => {
  const list = await createList(service, fields)
  const content = 'email,name,city\nbad,"a\\\\b\\",c",\\N\nworse,"\\\\N",C:\\\n'
  const settings = { file_format: { csv_field_escape: '\\' } }
  const log = await failedLog(await importText(service, list.id, content, { ...columns, ...settings }))
  const [, ...rows] = log.split('\n')
  t.match(rows, [/^bad,"a\\\\b"",c",,/, /^worse,"\\\\N",C:\\,/, ''])
  const again = log.replace('\nbad', '\nann@x.co').replace('\nworse', '\nbob@x.co')
  t.same(
    countsOf(
      await importText(service, list.id, again, {
        column_mapping: [...columns.column_mapping, null],
        ...settings,
      }),
    ),
    {
      added: 2,
    },
  )
  t.same(await everybody(list.id), { a: 'active a\\b",c', b: 'active \\N C:\\' })
})

t.test('an inspection proposes the escape', async (t) => {
  const list = await createList(service, fields)
  const inspect = (file_format: object): Promise<Json> =>
    service.post(`/mailing_lists/${list.id}/subscriber_imports/inspect`, {
      subscriber_import: { file_source: { type: 'json', content: mysql }, file_format },
    })
  t.match(await inspect({}), { csv_field_escape: '\\', csv_field_separator: ',', warnings: [] })
  t.match((await inspect({})).records[1].values, { city: 'the "Bay"' })
  const without = await inspect({ csv_field_escape: null })
  t.match([without.csv_field_escape, without.records[1].values.city], [null, '"the \\"Bay\\""'])
  t.match(without.warnings, [
    /text behind a closing enclosure/,
    /backslash before an enclosure/,
    /^file_format\.csv_field_escape is null, and the file looks as if it were "\\\\"$/,
  ])
})

t.test('a file without a record is a warning that says why', async (t) => {
  const list = await createList(service)
  const warnings = async (content: string) => (await importText(service, list.id, content)).warnings
  t.match(await warnings('email\n'), [
    /^the file has no record, only the line email, which is read as the header$/,
  ])
  t.match(await warnings('email\\nann@example.com\\nbob@example.com'), [
    /^the file has no record, only the line email\\nann@example.com.* it has \\n as two characters where a line should end$/,
  ])
  t.match(await warnings('sep=,\n\n \n'), [
    /^the file has no record: it is empty, or has only lines that are skipped$/,
  ])
})
