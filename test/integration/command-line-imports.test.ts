import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { openSourceFile } from '../../control-plane/cli/source-file.ts'
import { displayWidth } from '../../control-plane/cli/terminal.ts'
import { commandLine, hasTerminals } from '../helpers/command-line.ts'
import { makeZip } from '../helpers/make-zip.ts'
import { startService, until, type Json } from '../helpers/service.ts'

/** `rollcall import` and what shows its results, against a running service. */
const service = await startService(t, ['control-plane', 'engine', 'ftp'])
const { environment, folder, start, run, call, file, onTerminal } = await commandLine(t, service)

async function makeList(name: string, more: Json = {}): Promise<number> {
  return (await service.post('/mailing_lists', { mailing_list: { name, ...more } })).id
}
const makeField = (list: number, name: string, more: Json = {}): Promise<Json> =>
  service.post(`/mailing_lists/${list}/custom_fields`, {
    custom_field: { name, field_type: 'text', ...more },
  })
const valuesOf = async (list: number, email: string): Promise<Json> => {
  const [subscriber] = await service.get(`/mailing_lists/${list}/subscribers/${encodeURIComponent(email)}`)
  return Object.fromEntries(
    Object.entries<Json>(subscriber.custom_fields).map(([name, { value }]) => [name, value]),
  )
}

/** The service deletes the uploads of ended imports that were made for them alone. */
const noUploads = () =>
  until(
    'the end of the uploads',
    () => service.get<Json[]>('/uploads'),
    (uploads) => uploads.length === 0,
  )

t.test('every option of a creation has an option', async (t) => {
  const list = await makeList('All options', { has_format: true, has_confirmed: true })
  await makeField(list, 'First name')
  await makeField(list, 'a=b')
  const autoresponder = (name: string): Promise<Json> =>
    service.post(`/mailing_lists/${list}/autoresponders`, {
      autoresponder: { name, trigger: 'api', trigger_run_on_api: true, content_subject: 'Hello' },
    })
  const { id } = await autoresponder('Welcome')
  const { id: newsId } = await autoresponder('News')
  const { code, json, err } = await call([
    ...[
      'import',
      await file('options.csv', "email;First name\n'ann@example.com';Ann\n"),
      '--list',
      'all OPTIONS',
    ],
    ...['--overwrite', '--overwrite-what', 'status,confirmed', '--overwrite-when-status', 'bounced,active'],
    ...['--deactivate-missing', '--blank-cells', 'clear', '--no-field-defaults'],
    ...['--default-field', 'First name=A=B', '--default-field', '"a=b"=c'],
    ...['--default-status', 'unsubscribed', '--default-format', 'text', '--default-confirmed'],
    ...['--trigger-autoresponders', '--trigger-on-updated'],
    ...['--autoresponder-new', 'welcome', '--autoresponder-updated', String(newsId)],
    ...['--enclosure', 'single', '--separator', ';', '--character-set', 'UTF-8', '--date-format', 'dmy'],
    ...[
      '--callback-url',
      'http://127.0.0.1:1/hook',
      '--begins-at',
      '2100-01-01T00:00',
      '--dry-run',
      '--json',
    ],
  ])
  t.equal(code, 0, err)
  t.match(json[0], {
    overwrite: true,
    overwrite_what: { custom_fields: false, confirmed: true, format: false, status: true },
    overwrite_when_status: {
      ...{ active: true, bounced: true, unsubscribed: false, deactivated: false, scomp: false },
    },
    deactivate_subscribers_not_in_import: true,
    blank_cells: 'clear',
    default_custom_fields: { 'First name': 'A=B', 'a=b': 'c' },
    subscriber_defaults: { status: 'unsubscribed', format: 'text', confirmed: true },
    autoresponders: {
      subscription: { trigger: true, also_trigger_on_updated_subscribers: true },
      api: { trigger_new: { id, name: 'Welcome' }, trigger_updated: { id: newsId, name: 'News' } },
    },
    file_format: {
      ...{ csv_field_enclosure: "'", csv_field_separator: ';', character_set: 'utf-8', date_format: 'dmy' },
    },
    begins_at: '2100-01-01T00:00:00Z',
    dry_run: true,
    callback_url: 'http://127.0.0.1:1/hook',
    callback_secret: /^whsec_/,
  })
  await service.post(`/subscriber_imports/${json[0].id}/cancel`)
})

t.test('without options, the character set and the separator are auto', async (t) => {
  const list = await makeList('Auto')
  const { code, json, err } = await call([
    ...['import', await file('auto.csv', 'email|Vorname\nann@example.com|Änne\n')],
    ...['--list', String(list), '--watch', '--json'],
  ])
  t.equal(code, 0, err)
  t.match(json.at(-1), { file_format: { character_set: 'auto', csv_field_separator: 'auto' } })
  t.match(json.at(-1), { detected_csv_field_separator: '|', detected_character_set: 'utf-8' })
})

t.test('who said no is shown before the import, and is not added as active', async (t) => {
  const list = String(await makeList('Consent'))
  const shop = await file(
    'shop.csv',
    'Email,Accepts Email Marketing\nann@example.com,yes\nbob@example.com,no\n',
  )
  const ignored = await run(['import', shop, '--list', list, '--map', 'email,-', '--dry-run', '--yes'])
  t.equal(ignored.code, 0, ignored.err)
  const said = ignored.err.replaceAll(/\s+/g, ' ')
  t.match(said, /column 2 "Accepts Email Marketing" speaks of consent or status and is not mapped/)
  t.match(said, /says no in 1 of the first 2 records, and is not mapped: they are imported like all others/)
  t.notMatch(said, /field create/, 'a custom field would not help')
  const both = await file('both.csv', 'Email,Status,Consent\nann@example.com,active,no\n')
  const beside = await run(['import', both, '--list', list, '--dry-run', '--yes'])
  t.equal(beside.code, 0, beside.err)
  t.notMatch(beside.err, /--map/, 'consent is refused beside status')
  const { code, err } = await run(['import', shop, '--list', list, '--yes', '--watch'])
  t.equal(code, 0, err)
  t.match(
    err.replaceAll(/\s+/g, ' '),
    /says no in 1 of the first 2 records, and is mapped to consent: they are not added as active subscribers/,
  )
  const subscribers = await service.get(`/mailing_lists/${list}/subscribers`)
  t.match(subscribers, [{ status: 'active' }, { email: 'bob@example.com', status: 'unsubscribed' }])
})

t.test('a file of those who left unsubscribes them', async (t) => {
  const list = String(await makeList('Left'))
  const people = await file('left.csv', 'Email\nann@example.com\n')
  const added = await run(['import', people, '--list', list, '--yes', '--watch'])
  t.equal(added.code, 0, added.err)
  const left = ['--default-status', 'unsubscribed', '--overwrite', '--yes', '--watch']
  const kept = await run(['import', people, '--list', list, ...left])
  t.match(
    kept.err.replaceAll(/\s+/g, ' '),
    /--default-status is given, and --overwrite-what status is not given: only new subscribers get the status/,
  )
  const { code, err } = await run(['import', people, '--list', list, ...left, '--overwrite-what', 'status'])
  t.equal(code, 0, err)
  t.notMatch(err, /warning/)
  t.match(await service.get(`/mailing_lists/${list}/subscribers`), [{ status: 'unsubscribed' }])
})

t.test('a file that no mapping mends is refused, and no mapping is asked for', async (t) => {
  const list = String(await makeList('No mark'))
  const { code, err } = await run([
    ...['import', await file('no-mark.csv', 'email\nann@example.com\n')],
    ...['--list', list, '--character-set', 'UTF-16'],
  ])
  t.equal(code, 1)
  t.match(err, /import it with --character-set "UTF-16LE" or "UTF-16BE"/)
  t.notMatch(err, /--map/)
})

const fixtureFile = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/files/${name}`, import.meta.url))
/** What a terminal shows, without its line breaks. */
const unwrapped = (text: string): string => text.replaceAll(/\s+/g, ' ')

t.test('an escape is detected, or given by name', async (t) => {
  const list = await makeList('Escapes')
  for (const name of ['name', 'city']) await makeField(list, name)
  const escaped = fixtureFile('enclosures-escaped-by-backslashes.csv')
  const plain = fixtureFile('blanks-before-enclosures.csv')
  const import_ = async (source: string, ...more: string[]) => {
    const { code, err, json } = await call([
      ...['import', source, '--list', String(list), '--watch', '--dry-run', '--json', ...more],
    ])
    const { file_format: format, stats } = json.at(-1) ?? {}
    return { code, said: unwrapped(err), escape: format?.csv_field_escape, counts: stats?.subscribers }
  }
  t.match(await import_(escaped), {
    ...{ code: 0, escape: '\\', counts: { added: 4, failed: 0 } },
    said: /enclosures escaped by a backslash/,
  })
  for (const name of ['backslash', '\\'])
    t.match(await import_(escaped, '--escape', name), { code: 0, escape: '\\', counts: { added: 4 } })
  t.match(await import_(escaped, '--escape', 'none'), {
    ...{ code: 0, escape: null, counts: { added: 3, failed: 1 } },
    said: /--escape is none, and the file looks as if a backslash escaped its enclosures.*unterminated enclosure.*with --escape backslash/,
  })
  t.match(await import_(plain, '--escape', 'backslash'), {
    ...{ code: 0, escape: '\\', counts: { added: 3 } },
    said: /--escape is backslash, and the file looks as if nothing escaped its enclosures/,
  })
  for (const name of ['x', '', '"', 'null'])
    t.match(await import_(plain, '--escape', name), {
      code: 2,
      said: /--escape.*Allowed are none and backslash/,
    })
})

t.test('lines before the table are detected, or given by number', async (t) => {
  const list = await makeList('Notes')
  await makeField(list, 'Company')
  const source = fixtureFile('linkedin-connections.csv')
  const import_ = async (...more: string[]) => {
    const { code, err, json } = await call([
      ...['import', source, '--list', String(list), '--watch', '--dry-run', '--json', ...more],
    ])
    const { file_format: format, stats } = json.at(-1) ?? {}
    return { code, said: unwrapped(err), lines: format?.csv_skip_lines, counts: stats?.subscribers }
  }
  t.match(await import_(), {
    ...{ code: 0, lines: 3, counts: { added: 2, failed: 0 } },
    said: /lines before the table: 3, a header line/,
  })
  t.match(await import_('--skip-lines', '3'), { code: 0, lines: 3, counts: { added: 2, failed: 0 } })
  t.match(await import_('--skip-lines', '5', '--no-headers'), { code: 0, lines: 5, counts: { added: 1 } })
  t.match(await import_('--skip-lines', '0'), { code: 1, said: /no column is mapped to email/ })
  t.match(await import_('--skip-lines', '100'), {
    code: 1,
    said: /no column is mapped to email: the file is empty, or has only lines that are skipped/,
  })
  const long = await file('long-note.csv', `${'x'.repeat(70_000)}\nemail\nann@example.com\n`)
  t.match(await call(['import', long, '--list', String(list), '--skip-lines', '1']), {
    code: 1,
    err: /--skip-lines is 1, and the first 1 lines have more than 64 KiB/,
  })
  for (const number of ['101', '-1', '1.5', 'x', ''])
    t.match(await import_('--skip-lines', number), {
      code: 2,
      said: /--skip-lines.*It must be a number from 0 to 100/,
    })
})

t.test('contacts and dumps that are no table are refused before they are sent', async (t) => {
  const list = String(await makeList('No tables'))
  const kinds: [name: string, said: RegExp][] = [
    ['contacts.vcf', /the file is a vCard \(\.vcf\).* export the contacts as CSV UTF-8/],
    ['directory.ldif', /the file is an LDIF file.* export the contacts as CSV UTF-8/],
    ['subscribers.sql', /the file is an SQL dump.* export the table with the people as CSV UTF-8/],
  ]
  for (const [name, said] of kinds) {
    const source = fixtureFile(name)
    for (const way of [[], ['--via', 'http'], ['--via', 'ftp', '--map', 'email']]) {
      const { code, out, err } = await call(['import', source, '--list', list, '--watch', ...way])
      t.match({ code, out, said: unwrapped(err) }, { code: 1, out: '', said }, `${name} ${way.join(' ')}`)
      t.ok(err.includes(name), 'the file is named')
    }
    const piped = await run(['import', '-', '--list', list], { input: await readFile(source) })
    t.match({ code: piped.code, said: unwrapped(piped.err) }, { code: 1, said })
    const packed = await call([
      'import',
      await file(`${name}.gz`, gzipSync(await readFile(source))),
      '--list',
      list,
    ])
    t.match({ code: packed.code, said: unwrapped(packed.err) }, { code: 1, said }, 'only the service sees it')
  }
  t.same(await service.get(`/mailing_lists/${list}/subscriber_imports?scope=all`), [])
  t.same(await service.get('/uploads'), [])
})

t.test('the reasons of failed rows name options of the command line', async (t) => {
  const list = String(await makeList('Options in reasons'))
  const source = await file(
    'options-in-reasons.csv',
    'email,subscribe_time\nann;a@example.com,\nbob@example.com,31/12/2014\n',
  )
  const ended = await call([
    ...['import', source, '--list', list, '--watch', '--yes'],
    ...['--separator', ',', '--date-format', 'mdy'],
  ])
  const said = unwrapped(ended.err)
  t.equal(ended.code, 3)
  t.match(said, /2 of the first 2 records would fail: .*; is --separator right\?/)
  t.match(said, /1 1 email not an email address: .*; is --separator right\?/)
  t.match(said, /1 2 subscribe_time not .*; if the day comes first, give --date-format dmy/)
  t.notMatch(said, /csv_field_separator|date_format/)
})

t.test('an idempotency key makes one import of two commands', async (t) => {
  const list = String(await makeList('Once'))
  const args = ['import', await file('once.csv', 'email\nann@example.com\n'), '--list', list]
  const twice = async (key: string, ...more: string[]) => {
    const keyed = [...args, '--idempotency-key', key, '--begins-at', '2100-01-01T00:00', '--json', ...more]
    return [await call(keyed), await call(keyed)].map(({ code, json }) => [code, json[0]?.id])
  }
  for (const ended of [await twice('inline'), await twice('upload', '--via', 'http')]) {
    t.match(ended, [
      [0, Number],
      [0, Number],
    ])
    t.same(ended[0], ended[1])
  }
  const [upload, ...others] = await service.get('/uploads')
  t.same(others, [], 'the second command used the upload of the first one')
  t.equal((await call(['uploads', 'rm', upload.filename])).code, 0)
})

t.test('lists are taken by id and by name everywhere', async (t) => {
  const list = await makeList('Größe 邮箱')
  const created = await call(['field', 'create', '--list', 'GRÖSSE 邮箱', '--name', 'Plan', '--type', 'text'])
  t.equal(created.code, 1, 'sharp s is another letter')
  const results = await Promise.all([
    call(['field', 'create', '--list', 'größe 邮箱', '--name', 'Plan', '--type', 'text']),
    call(['imports', '--list', 'Größe 邮箱']),
    call(['subscribers', ' Größe 邮箱 ']),
    call(['subscribers', String(list)]),
  ])
  t.same(
    results.map(({ code }) => code),
    [0, 0, 0, 0],
  )
  t.match(await call(['field', 'list', '--list', 'GRÖßE 邮箱']), { code: 0, out: /Plan +text/ })
  const source = await file('names.csv', 'email\nann@example.com\n')
  t.match(await call(['import', source, '--list', 'No such list']), {
    code: 1,
    err: /no mailing list "No such list"[^]*rollcall list list/,
  })
  t.match(await call(['import', source, '--list', '0']), { code: 2 })
  t.match(await call(['subscribers', '999999']), { code: 1, err: /999999/ })
})

t.test('the mapping by numbers changes the guess, and a wrong one is wrong usage', async (t) => {
  const list = await makeList('Mapped')
  await makeField(list, 'First name')
  await makeField(list, 'Last, first')
  const source = await file('mapped.csv', 'E-Mail,Vorname,x,y\nann@example.com,Ann,ann@x.example,2\n')
  const mapped = async (map: string) => {
    const { code, json, err } = await call([
      ...['import', source, '--list', String(list), '--map', map, '--dry-run', '--json'],
    ])
    return code === 0 ? json[0].column_mapping : { code, err }
  }
  t.same(await mapped('3="Last, first"'), ['email', 'First name', 'Last, first', null])
  t.same(await mapped('2=-, 4=First name'), ['email', null, null, 'First name'])
  t.same(await mapped('3=email'), [null, 'First name', 'email', null])
  t.same(await mapped('email,ignore,-,"Last, first"'), ['email', null, null, 'Last, first'])
  for (const [map, reason] of [
    ['5=First name', /column 5.* 4 columns/],
    ['1=email,First name', /NUMBER=NAME/],
    ['2=Nothing', /column 2: "Nothing" is neither/],
    ['-,First name,-,-', /email/],
    ['email,email,-,-', /email/],
  ] as const)
    t.match(await mapped(map), { code: 2, err: reason }, map)
})

t.test('columns without field are named with the command that makes one', async (t) => {
  const list = await makeList('Columns')
  await makeField(list, 'First name')
  await makeField(list, 'Age', { field_type: 'number' })
  const content = "email,first_name,AGE,It's new,,Notes\nann@example.com,Ann,old,1,2,3\n"
  const args = ['import', await file('columns.csv', content), '--list', String(list), '--dry-run']
  const { code, err } = await call(args)
  t.equal(code, 0)
  t.match(err, /# +header without a field +first value\n *4 +It's new +1\n *6 +Notes +3\n/)
  t.match(unwrapped(err), /these 2 columns have no field and are ignored; import all .* with --create-fields/)
  t.ok(err.includes(`\n  rollcall field create --list ${list} --name 'It'\\''s new' --type text\n`))
  t.equal(err.match(/rollcall field create/g)?.length, 1, 'one command is shown, however many columns')
  t.ok(err.indexOf('warning:') < err.indexOf('imported as'), 'the mapping comes last')
  t.match(err, /column 3 'AGE' is ignored, although there is 'Age'[^]*--map '3=Age'/)
  t.notMatch(err, /field create.*(AGE|first_name)/)
  t.equal(err.match(/imported as/g)?.length, 1, 'the mapping is shown once')
  const ignored = await call([...args, '--map', '4=-,6=ignore'])
  t.notMatch(ignored.err, /field create/)
  t.equal(ignored.err.match(/imported as/g)?.length, 1)
  const silent = await call([...args, '--map', 'email,-,-,-,-,-'])
  t.match(silent.err, /column 2 'first_name' is ignored, although there is 'First name'/)
})

t.test('of a zip with several files one can be named', async (t) => {
  const list = String(await makeList('Zip'))
  const zip = await file(
    'several.zip',
    makeZip([
      { name: 'a.csv', content: 'email\na@example.com\n' },
      { name: 'folder/b.csv', content: 'email\nb@example.com\nc@example.com\n' },
    ]),
  )
  const several = await call(['import', zip, '--list', list, '--watch'])
  t.match(several, { code: 1, err: /several files[^]*"a\.csv", "folder\/b\.csv"[^]*several\.zip:NAME/ })
  t.same(await service.get('/uploads'), [], 'nothing was uploaded')
  const named = await call(['import', `${zip}:folder/b.csv`, '--list', list, '--watch'])
  t.match(named, { code: 0, out: /2 of 2 records of b\.csv into Zip/ })
  const none = await call(['import', `${zip}:c.csv`, '--list', list])
  t.match(none, { code: 1, err: /without "c\.csv"[^]*"a\.csv"/ })
  const quoted = await call(['import', await file("ann's.zip", await readFile(zip)), '--list', list])
  t.match(quoted.err, /rollcall import '[^']*\/ann'\\''s\.zip:NAME'/, 'a shell takes it')
  const piped = await run(['import', '-', '--list', list], { input: await readFile(zip) })
  t.match(piped, { code: 1, err: /standard input has several files[^]*FILE\.zip:NAME/ })
  t.same(await service.get('/uploads'), [])
  const book = await file(
    'book.zip',
    makeZip([
      { name: 'b.pdf', content: '%PDF-1.7\n' },
      { name: 'a.csv', content: '' },
    ]),
  )
  t.match((await call(['import', `${book}:b.pdf`, '--list', list])).err, /book\.zip:b\.pdf: .*PDF/)
})

t.test('a large file of a zip is uploaded by each door, and no folder has a copy of it', async (t) => {
  const emails = Array.from({ length: 60_000 }, (_, i) => `person.${i}@large.example.com`)
  const content = `email\n${emails.join('\n')}\n`
  const zip = await file('large.zip', makeZip([{ name: 'large.csv', content }]))
  for (const via of ['http', 'ftp']) {
    const list = String(await makeList(`Large zip by ${via}`))
    const large = await run(['import', `${zip}:large.csv`, '--list', list, '--watch', '--via', via], {
      settings: { TMPDIR: path.join(folder, 'missing') },
    })
    t.match(large, { code: 0, out: /60,000 of 60,000 records of large\.csv/, err: /^uploaded as /m })
  }
  const source = await openSourceFile(`${zip}:large.csv`, Readable.from([]))
  t.equal(source.size, content.length)
  for (const from of [0, 1, 65_535, 65_536, 65_537, 1_000_000, content.length - 1, content.length])
    t.ok((await text(source.bytes(from))) === content.slice(from), `from ${from}`)
  await writeFile(zip, 'changed')
  t.equal(await source.hasChanged(), true)
  const gone = await call(['import', `${zip}.zip:large.csv`, '--list', '1'])
  t.match(gone, { code: 2, err: /can't read .*large\.zip\.zip/ })
})

t.test('a corrected failed log is imported without a word about its own columns', async (t) => {
  const list = String(await makeList('Mended'))
  const log = await file('failed.csv', 'email,line,error\nann@example.com,2,email: wrong\n')
  const { code, err } = await call(['import', log, '--list', list, '--watch', '--create-fields'])
  t.equal(code, 0)
  t.notMatch(err, /field create|new field|created/)
  t.match(err, /error +email: wrong +\(of a failed log\)/)
  const again = await file(
    'again.csv',
    'email,line,error,line,error\nbob@example.com,2,email: wrong,3,email: wrong\n',
  )
  const second = await call(['import', again, '--list', list, '--watch', '--create-fields', '--map', 'email'])
  t.equal(second.code, 0, second.err)
  t.notMatch(second.err, /field create|new field|created|not in the mapping/)
  t.same(await service.get(`/mailing_lists/${list}/custom_fields`), [])
})

t.test('rows that exist already lead to --overwrite', async (t) => {
  const list = String(await makeList('Again'))
  const args = ['import', await file('again.csv', 'email\na@example.com\nb@example.com\n'), '--list', list]
  t.notMatch((await call([...args, '--watch'])).err, /--overwrite/)
  t.match(
    unwrapped((await call([...args, '--watch'])).err),
    /2 of 2 rows are on the list already .* --overwrite/,
  )
  t.notMatch((await call([...args, '--watch', '--overwrite'])).err, /--overwrite/)
})

t.test(
  'imports are filtered by state and shown with their failed rows, and fields are deleted',
  async (t) => {
    const list = String(await makeList('States'))
    await makeField(Number(list), 'First name')
    const later = ['import', await file('later.csv', 'email\na@example.com\n'), '--list', list, '--json']
    const [{ id: cancelled }] = (await call([...later, '--begins-at', '2030-01-01T00:00:00Z'])).json
    await call(['cancel', String(cancelled)])
    const all = ['imports', '--scope', 'all', '--list', list]
    t.match(await call([...all, '--state', 'cancelled,failed']), {
      out: new RegExp(`^ *id +state +records +of +failed.*\n *${cancelled} +cancelled`),
    })
    t.notMatch((await call([...all, '--state', 'finished'])).out, /cancelled/)
    const check = ['import', await file('check.csv', 'email\nb@example.com\n'), '--list', list, '--dry-run']
    t.match(await call([...check, '--watch']), { code: 0 })
    t.match((await call(all)).out, /finished \(dry run\) +1 +1 +0 .*check\.csv/)
    t.match(await call([...all, '--state', 'gone']), { code: 1, err: /state/ })
    t.match(await call(['imports', '1', '--state', 'failed']), { code: 2, err: /--state/ })
    t.match(await call(['field', 'delete', 'FIRST name', '--list', list]), {
      code: 0,
      out: /FIRST name was deleted/,
    })
    t.same(await service.get(`/mailing_lists/${list}/custom_fields`), [])
    t.match(await call(['field', 'delete', 'Gone', '--list', list]), { code: 1, err: /there is no "Gone"/ })
  },
)

t.test(
  'on a terminal a field is deleted when that is confirmed',
  { skip: !hasTerminals && 'no pty' },
  async (t) => {
    const list = await makeList('Kept fields')
    await makeField(list, 'Plan')
    const args = ['field', 'delete', 'Plan', '--list', String(list)]
    const question = 'with its values of all subscribers'
    t.match(await onTerminal(args, [[question, '\n']]), { code: 1, out: /nothing was deleted/ })
    t.equal((await service.get(`/mailing_lists/${list}/custom_fields`)).length, 1)
    t.match(await onTerminal(args, [[question, 'y\n']]), { code: 0, out: /Plan was deleted/ })
    t.same(await service.get(`/mailing_lists/${list}/custom_fields`), [])
  },
)

t.test(
  'Ctrl-C and Ctrl-D at a question remove the upload of the file',
  { skip: !hasTerminals && 'no pty' },
  async (t) => {
    const list = await makeList('Interrupted')
    const source = await file('interrupted.csv.gz', gzipSync('email\nann@example.com\n'))
    for (const typed of ['\\x03', '\\x04']) {
      const { code, out } = await onTerminal(['import', source, '--list', String(list)], [['[Y/n', typed]])
      t.equal(code, 130, out)
      t.notMatch(out, /Warning/)
      t.same(await service.get('/uploads'), [])
    }
  },
)

t.test('fields are created of the columns that have none', async (t) => {
  const list = await makeList('New fields')
  await makeField(list, 'Plan')
  const long = '邮'.repeat(60)
  const source = await file(
    'fields.csv',
    `email, Größe ,größe,${long},Status ,Plan,,skip\nann@example.com,L,M,x,active,Free,y,z\n`,
  )
  const args = ['import', source, '--list', String(list), '--create-fields', '--map', '8=-,5=-']
  const names = async () =>
    (await service.get(`/mailing_lists/${list}/custom_fields`)).map(({ name, field_type }: Json) => [
      ...[name, field_type],
    ])
  const rehearsed = await call([...args, '--dry-run', '--watch'])
  t.match(rehearsed, {
    code: 0,
    err: /2 text fields would be created:\n {2}column 2: Größe\n {2}column 4: 邮{49}\n/,
  })
  t.same(await names(), [['Plan', 'text']], 'a dry run creates none')
  const { code, err } = await call([...args, '--watch'])
  t.equal(code, 0, err)
  t.match(err, /no field can be made of column 3 'größe', because the name is taken/)
  t.notMatch(err, /field create/, 'no command is shown that the service would refuse')
  t.same(await names(), [
    ['Plan', 'text'],
    ['Größe', 'text'],
    ['邮'.repeat(49), 'text'],
  ])
  t.same(await valuesOf(list, 'ann@example.com'), { Plan: 'Free', Größe: 'L', ['邮'.repeat(49)]: 'x' })
})

t.test('a command to create a field is shown only where the service takes it', async (t) => {
  const list = String(await makeList('Taken names'))
  const source = await file('taken.csv', 'email,confirm_time,Town,town\nann@example.com,x,y,z\n')
  const { code, err } = await call(['import', source, '--list', list, '--dry-run', '--watch'])
  t.equal(code, 0, err)
  t.same(
    Array.from(err.matchAll(/field create.*--name '([^']*)'/g), ([, name]) => name),
    ['Town'],
  )
  t.match(err, /no field can be made of column 2 'confirm_time'/)
  t.match(err, /no field can be made of column 4 'town'/)
})

t.test('the exit code says how many rows may fail', async (t) => {
  const list = String(await makeList('Fail on'))
  const source = await file('fail-on.csv', 'email\nann@example.com\nbob@example.com\ncarl\n')
  const args = ['import', source, '--list', list, '--dry-run']
  const codes = await Promise.all(
    ['33.33', '33.34', '34%', '0', '100'].map(
      async (percent) => (await call([...args, '--watch', '--fail-on', percent])).code,
    ),
  )
  t.same(codes, [3, 0, 0, 3, 0])
  const quarter = await file(
    'quarter.csv',
    'email\nann@example.com\nbob@example.com\neve@example.com\ncarl\n',
  )
  const exact = ['import', quarter, '--list', list, '--dry-run', '--watch', '--fail-on']
  t.match(await call([...exact, '25']), { code: 0 }, 'exactly as many as may fail')
  t.match(await call([...exact, '24.99']), { code: 3 })
  const all = await call([
    ...['import', await file('all.csv', 'email\ncarl\n'), '--list', list, '--watch', '--fail-on', '100'],
    '--yes',
  ])
  t.equal(all.code, 3, 'an import of which every row failed')
  const id = /Import (\d+) is finished/.exec(all.out)![1]!
  const [without, wrong, later, needsWatch] = await Promise.all([
    call([...args, '--fail-on', '5']),
    call([...args, '--watch', '--fail-on', '101']),
    call(['imports', id, '--watch', '--fail-on', '5']),
    call(['imports', id, '--fail-on', '5']),
  ])
  t.match(without, { code: 2, err: /--watch/ })
  t.match(wrong, { code: 2, err: /0 to 100/ })
  t.equal(later.code, 3)
  t.equal(needsWatch.code, 2)
  t.match(await call([...args, '--overwrite-what', 'status']), { code: 2, err: /add --overwrite\b/ })
  t.match(await call(['import', '--help']), { out: /Exit codes: [^]*--fail-on/ })
})

t.test('a watched import ends with its counts and the reasons on standard error', async (t) => {
  const list = String(await makeList('Reasons'))
  await makeField(Number(list), 'Age', { field_type: 'number' })
  const rows = 'email,Age\nann@example.com,7\nbob@example.com,old\ncarl@example.com,x\ndora,8\n'
  const args = ['import', await file('reasons.csv', rows), '--list', list, '--watch']
  const { code, out, err } = await call(args)
  t.equal(code, 0)
  t.match(out, /^Import \d+ is finished: 4 of 4 records of reasons\.csv into Reasons in .*\n$/)
  t.match(err, /result +rows\nadded +1\nfailed +3\n/)
  t.match(
    err,
    /failed +column +header +reason +record +example\n +2 +2 +Age +.* 2 +old\n +1 +1 +email +.* 4 +dora\n/,
  )
  const id = /Import (\d+)/.exec(out)![1]!
  t.match(await call(['imports', id]), { code: 0, out: /failed +3\n[^]* 2 +old\n/ })
})

t.test('subscribers and counts are shown', async (t) => {
  const list = await makeList('Shown')
  await makeField(list, 'Größe')
  const emails = Array.from({ length: 501 }, (_, i) => `row.${i}@example.com,L\n`).join('')
  const source = await file('shown.csv', `email,Größe\n${emails}joerg@example.com,邮箱\n`)
  t.equal((await call(['import', source, '--list', 'Shown', '--watch'])).code, 0)
  const [all, json, one, oneJson, none, noneJson, counts, countsJson] = await Promise.all([
    call(['subscribers', 'Shown']),
    call(['subscribers', 'Shown', '--json']),
    call(['subscribers', 'Shown', 'joerg@example.com']),
    call(['subscribers', String(list), 'JOERG@example.com', '--json']),
    call(['subscribers', 'Shown', 'nobody@example.com']),
    call(['subscribers', 'Shown', 'nobody@example.com', '--json']),
    call(['counts']),
    call(['counts', '--json']),
  ])
  t.equal(all.code, 0)
  t.equal(all.out.split('\n').length, 504, 'a header and 502 subscribers')
  t.match(all.out, /^ *id +email +status +subscribe_time *\n/)
  t.equal(json.json[0].length, 502)
  t.match(one, { code: 0, out: /^email +joerg@example\.com$[^]*^Größe +邮箱$/m })
  t.match(oneJson, { code: 0, json: [[{ email: 'joerg@example.com' }]] })
  t.match(none, { code: 1, out: '', err: /no subscriber nobody@example\.com/ })
  t.match(noneJson, { code: 1, out: '' })
  t.match(counts, { code: 0, out: new RegExp(`^ *${list} +Shown +502 +0 +0 +0 +0$`, 'm') })
  t.ok(countsJson.json[0].counts.active >= 502)
})

/** With the commit, where there is one. */
const version = /^\d+\.\d+\.\d+(?: \([0-9a-f]{7,}\))?\n$/

t.test('the version is that of the package', async (t) => {
  t.match(await run(['--version']), { code: 0, out: version })
})

t.test('what is not plain UTF-8 goes as it is through the upload directory', async (t) => {
  const list = await makeList('As it is')
  await makeField(list, 'First name')
  const windows = Buffer.from('email,First name\nwin@example.com,x\n')
  windows[windows.lastIndexOf('x')] = 0x80
  const import_ = async (name: string, bytes: Uint8Array, ...more: string[]) =>
    call(['import', await file(name, bytes), '--list', String(list), '--watch', '--json', ...more])
  const wide = Buffer.from('\ufeffemail,First name\nwide@example.com,\u0142\n', 'utf16le')
  const results = await Promise.all([
    import_('windows.csv', windows),
    import_('windows.gz', gzipSync(windows.toString('latin1').replace('win@', 'zip@'), {})),
    import_('wide.csv', wide),
    import_(
      'latin.csv',
      Buffer.from('email,First name\nlatin@example.com,\xe9\n', 'latin1'),
      '--character-set',
      'ISO-8859-1',
    ),
    import_('asked.csv', Buffer.from('email,First name\nasked@example.com,a\n'), '--via', 'http'),
  ])
  for (const { code, err, json } of results) {
    t.equal(code, 0, err)
    t.match(json.at(-1), { file_source: { type: 'upload_directory' } })
    t.match(err, /^uploaded as /m)
  }
  t.match(results[0].json.at(-1), { detected_character_set: 'windows-1252' })
  t.equal((await valuesOf(list, 'win@example.com'))['First name'], '€')
  t.equal((await valuesOf(list, 'wide@example.com'))['First name'], 'ł')
  t.equal((await valuesOf(list, 'latin@example.com'))['First name'], 'é')
  await noUploads()
  const [inline, packed, other] = await Promise.all([
    import_('windows.csv', windows, '--via', 'inline'),
    import_('packed.csv', gzipSync('email\nx@example.com\n'), '--via', 'inline'),
    import_('set.csv', Buffer.from('email\nx@example.com\n'), '--via', 'inline', '--character-set', 'Big5'),
  ])
  for (const { code, err } of [inline, packed, other])
    t.match({ code, err }, { code: 2, err: /--via inline/ })
  t.match(await import_('sheet.csv', Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n', 'latin1')), {
    code: 1,
    err: /PDF/,
  })
  const workbook = makeZip([
    { name: '[Content_Types].xml', content: '<Types/>' },
    { name: 'xl/workbook.xml', content: '<workbook/>' },
  ])
  const refused = await import_('sheet.csv', workbook)
  t.match(refused, { code: 1, err: /an Excel workbook .*save it as CSV UTF-8/ })
  t.notMatch(refused.err, /uploaded as/, 'it is refused before it is sent')
  t.match(await import_('set.csv', Buffer.from('email\n'), '--character-set', 'latin9'), {
    code: 2,
    err: /windows-1252/,
  })
})

t.test('files of the upload directory are listed, sent and removed', async (t) => {
  const source = await file('upload.csv', 'email\nann@example.com\n')
  const put = await call(['uploads', 'put', source, 'Größe 1.csv'])
  t.match(put, { code: 0, out: /^filename +Größe 1\.csv$/m })
  t.match(await call(['uploads', 'put', source, '--json']), {
    code: 0,
    json: [{ filename: 'upload.csv', size: 22 }],
  })
  const piped = await run(['uploads', 'put', '-', 'piped.csv'], { input: 'email\n' })
  t.match(piped, { code: 0, out: /^size +6$/m })
  t.match(await call(['uploads', 'list']), {
    code: 0,
    out: /^filename +size +modified_at +unfinished_size\nGröße 1\.csv +22 [^]*piped\.csv +6 [^]*upload\.csv +22 /m,
  })
  t.match(await call(['uploads', 'list', '--json']), {
    code: 0,
    json: [[{ filename: 'Größe 1.csv' }, { filename: 'piped.csv' }, { filename: 'upload.csv' }]],
  })
  for (const name of ['Größe 1.csv', 'piped.csv', 'upload.csv'])
    t.match(await call(['uploads', 'rm', name]), { code: 0, out: `${name} was removed.\n` })
  t.match(await call(['uploads', 'rm', 'upload.csv']), { code: 1 })
  t.match(await call(['uploads', 'put', '-']), { code: 2, err: /name/ })
  t.match(await call(['uploads', 'put', 'nothing.csv']), { code: 2, err: /nothing\.csv/ })
})

/**
 * A relay to the control plane. It refuses the next requests with the statuses of `refusals`, and breaks the connection of
 * the next `cuts` PUTs after some bytes.
 */
async function startRelay(cutAfter: number) {
  const target = new URL(service.processes['control-plane']!.ready.http!)
  const relay = { url: '', cuts: 0, putBytes: [] as number[], refusals: [] as number[], unsure: 0 }
  const server = createServer((request, response) => {
    const { method, headers, url: path } = request
    const refuse = (status: number) => {
      const error = { success: false, error_code: 'not_now', error_message: 'try again' }
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(error))
    }
    const refusal = relay.refusals.shift()
    if (refusal !== undefined) {
      refuse(refusal)
      return
    }
    const isCreation = method === 'POST' && path?.endsWith('/subscriber_imports') === true
    const forwarded = httpRequest(new URL(path ?? '/', target), { method, headers }, (reply) => {
      if (isCreation && relay.unsure > 0) {
        relay.unsure -= 1
        reply.resume().once('end', () => refuse(503))
        return
      }
      response.writeHead(reply.statusCode ?? 500, reply.headers)
      reply.pipe(response)
    })
    forwarded.on('error', () => response.destroy())
    if (method !== 'PUT') return void request.pipe(forwarded)
    const at = relay.putBytes.push(0) - 1
    const isCut = relay.cuts > 0
    if (isCut) relay.cuts -= 1
    request.on('data', (piece: Buffer) => {
      relay.putBytes[at]! += piece.length
      forwarded.write(piece)
      if (!isCut || relay.putBytes[at]! < cutAfter) return
      request.destroy()
    })
    request.on('end', () => forwarded.end())
    request.on('close', () => request.complete || forwarded.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  relay.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return relay
}

const wideRows = (count: number): string =>
  Array.from({ length: count }, (_, i) => `row.${i}@example.com,${'x'.repeat(1_000)}\n`).join('')

t.test('an upload that is interrupted is resumed, by the same command or a later one', async (t) => {
  const list = String(await makeList('Resumed'))
  const relay = await startRelay(2_000_000)
  const content = `email,Notes\n${wideRows(5_000)}`
  const source = await file('resumed.csv', content)
  const args = ['import', source, '--list', list, '--via', 'http', '--map', 'email,-', '--watch']
  relay.cuts = 1
  const once_ = await call(args, { ROLLCALL_URL: relay.url })
  t.match(once_, { code: 0, out: /5,000 of 5,000 records/ }, once_.err)
  const [first = 0, second = 0] = relay.putBytes
  t.ok(first >= 2_000_000 && second < content.length - 1_000_000, `${first} and ${second} bytes were sent`)

  relay.putBytes.length = 0
  relay.cuts = 1_000
  const killed = start(args, { ROLLCALL_URL: relay.url })
  await until(
    'an unfinished upload',
    () => service.get('/uploads'),
    (uploads: Json[]) => uploads.some(({ unfinished_size: size }) => size > 0),
  )
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  relay.cuts = 0
  relay.putBytes.length = 0
  const later = await call([...args, '--dry-run'], { ROLLCALL_URL: relay.url })
  t.match(later, { code: 0, out: /5,000 of 5,000 records/ }, later.err)
  t.ok(relay.putBytes.at(-1)! < content.length, `${relay.putBytes.join(' and ')} bytes were sent`)
  await noUploads()
})

t.test('a watched import is waited for while the service is away or overloaded', async (t) => {
  const relay = await startRelay(0)
  const list = String(await makeList('Refusals'))
  const source = await file('refusals.csv', 'email\nann@example.com\n')
  const { out } = await call(['import', source, '--list', list])
  const id = /Import (\d+)/.exec(out)![1]!
  const watch = (refusals: number[]) => {
    relay.refusals = refusals
    return call(['imports', id, '--watch'], { ROLLCALL_URL: relay.url })
  }
  t.match(await watch([503, 429, 502]), { code: 0, out: /is finished/ })
  t.same(relay.refusals, [])
  t.match(await watch([401]), { code: 1, err: /try again/ })
})

t.test('a creation that may be done in spite of its 503 is sent again, and keeps its upload', async (t) => {
  const relay = await startRelay(0)
  const listId = await makeList('Unsure')
  const source = await file('unsure.csv', 'email\nann@example.com\n')
  const args = ['import', source, '--list', String(listId), '--via', 'http', '--map', 'email', '--watch']
  relay.unsure = 2
  const again = await call(args, { ROLLCALL_URL: relay.url })
  t.match(again, { code: 0, out: /is finished/ }, again.err)
  const path = `/mailing_lists/${listId}/subscriber_imports?scope=all`
  t.equal((await service.get<Json[]>(path)).length, 1, 'its Idempotency-Key came with each')
  relay.unsure = 100
  const given = await call(args, { ROLLCALL_URL: relay.url })
  t.match(given, {
    code: 1,
    err: /unsure\S* stays in the upload directory: remove it when no import reads it/,
  })
  t.equal((await service.get<Json[]>(path)).length, 2)
  await noUploads()
})

t.test('a file that was written to since is sent anew', async (t) => {
  const list = String(await makeList('Changed'))
  const relay = await startRelay(2_000_000)
  const source = await file('changed.csv', `email,Notes\n${wideRows(5_000)}`)
  const args = ['import', source, '--list', list, '--via', 'http', '--map', 'email,-', '--watch']
  relay.cuts = 1_000
  const killed = start(args, { ROLLCALL_URL: relay.url })
  await until(
    'an unfinished upload',
    () => service.get('/uploads'),
    (uploads: Json[]) => uploads.some(({ unfinished_size: size }) => size > 0),
  )
  killed.kill('SIGKILL')
  await once(killed, 'exit')
  const [unfinished] = await service.get('/uploads')
  const content = `email,Notes\n${wideRows(5_000).replaceAll('row.', 'new.')}`
  await file('changed.csv', content)
  relay.cuts = 0
  relay.putBytes.length = 0
  t.match(await call(args, { ROLLCALL_URL: relay.url }), { code: 0, out: /5,000 of 5,000 records/ })
  t.same(relay.putBytes, [Buffer.byteLength(content)])
  t.match(await service.get(`/mailing_lists/${list}/subscribers?per_page=1`), [
    { email: 'new.0@example.com' },
  ])
  t.match(await call(['uploads', 'rm', unfinished.filename]), { code: 0 }, 'the other one stays as it was')
})

const shownLines = (out: string): string[] => stripVTControlCharacters(out).split(/\r\n|\n|\r/)

t.test(
  'no line is wider than the terminal, and control characters are escaped',
  { skip: hasTerminals ? false : 'python3 with pty not installed' },
  async (t) => {
    const list = String(await makeList('Terminal with a long name, 邮箱邮箱邮箱邮箱邮箱邮箱邮箱邮箱'))
    await makeField(Number(list), 'Notes')
    const source = await file(
      'terminal 邮箱.csv',
      `email,Notes,\u001b]0;owned\u0007${'邮'.repeat(30)},Größe\nann@example.com,${'邮箱'.repeat(50)},2,3\n${'long'.repeat(30)},\u001b[31mred,4,5\n`,
    )
    const imported = await onTerminal(
      ['import', source, '--list', list, '--watch', '--create-fields'],
      [
        ['[Y/n', 'y\n'],
        ['import? [Y/n', 'y\n'],
      ],
      { columns: 40 },
    )
    const id = /Import (\d+) is finished/.exec(stripVTControlCharacters(imported.out))?.[1] ?? '0'
    const commands = [
      ['imports'],
      ['imports', id],
      ['logs', id, 'failed'],
      ['subscribers', list],
      ['subscribers', list, 'ann@example.com'],
      ['counts'],
      ['list', 'list'],
      ['field', 'list', '--list', list],
      ['import', '--help'],
      ['--help'],
      ['imprt'],
    ]
    const shown = await Promise.all(commands.map((args) => onTerminal(args, [], { columns: 40 })))
    const narrow = await onTerminal(['import', source, '--list', list], [['mapping]', 'n\\n']], {
      columns: 24,
    })
    t.match(narrow.out, /nothing was\s+imported/)
    t.same(
      shownLines(narrow.out).filter((line) => displayWidth(line) > 24),
      [],
      'questions are wrapped too',
    )
    t.match(imported, { code: 0 }, imported.out)
    for (const [i, { out }] of [imported, ...shown].entries()) {
      const widest = shownLines(out).sort((a, b) => displayWidth(b) - displayWidth(a))[0]!
      t.ok(displayWidth(widest) <= 40, `${commands[i - 1]?.join(' ') ?? 'import'}: ${widest}`)
      t.notMatch(out, /\u001b\]0|\u0007|\u001b\[31mred/)
    }
    t.match(shown[2]!.out, /\\x1b\[31mred|…/)
    t.match(
      await call(['logs', id, 'failed']),
      { out: /\u001b\[31mred/ },
      'on a pipe nothing is escaped or cut',
    )
    t.match(await call(['subscribers', list, 'ann@example.com']), { out: new RegExp('(邮箱){50}') })
  },
)

t.test('an installation from a clone makes a command for every folder', async (t) => {
  const prefix = path.join(folder, 'global')
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const options = ['--prefix', prefix, '--offline', '--no-audit', '--no-fund']
  const installed = spawnSync('npm', ['install', '--global', '.', ...options], {
    cwd: root,
    env: environment(),
  })
  t.equal(installed.status, 0, installed.stderr.toString())
  const rollcall = (...args: string[]) =>
    spawnSync(path.join(prefix, 'bin/rollcall'), args, { cwd: folder, env: environment() })
  t.match(rollcall('--version').stdout.toString(), version)
  t.match(rollcall('list', 'list').stdout.toString(), /^ *id +name /)
})
