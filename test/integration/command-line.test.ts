import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { ApiClient } from '../../control-plane/cli/api-client.ts'
import { watchImport } from '../../control-plane/cli/watch.ts'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { makeCertificate } from '../helpers/certificate.ts'
import { commandLine, ended, hasTerminals, program, type Ended } from '../helpers/command-line.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'
import { crashAt } from '../helpers/crash-at.ts'
import { missing } from '../helpers/missing-programs.ts'
import { resume, startProcess, startProgram, startService, until, type Json } from '../helpers/service.ts'

/**
 * The command line against a running service. Where exit codes, pipes, signals, settings or a terminal matter, it
 * runs as a process. Elsewhere it runs in this process, which is ten times as fast.
 */
const service = await startService(t, [])
// No other program is given this port while the control plane starts again.
const HTTP_PORT = String(await freePort())
await service.start('control-plane', { HTTP_PORT })
await service.start('engine')
await service.start('ftp')
const { folder, environment, start, run, call, file, onTerminal } = await commandLine(t, service)

const listId = Number((await service.post('/mailing_lists', { mailing_list: { name: 'Command line' } })).id)
const people = 'E-Mail;Vorname;Source\nann@example.com;Ann;fair\nbob@example;Bob;fair\njoe@example.com;Joe;\n'

t.test('creates and lists records', async (t) => {
  const field = [
    'field',
    'create',
    '--list',
    String(listId),
    '--name',
    'First name',
    '--type',
    'text',
    '--json',
  ]
  const [org, list, created, key, user, noPassword, limit] = await Promise.all([
    call([
      ...['org', 'create', '--name', 'Acme', '--time-zone'],
      ...['Europe/Berlin', '--subscriber-limit', '7', '--json'],
    ]),
    call(['list', 'create', '--name', 'With all', '--has-format', '--has-confirmed', '--org', '1', '--json']),
    call(field),
    call(['key', 'create', '--name', 'uploads', '--role', 'standard']),
    run(
      ['user', 'create', '--email', 'eve@example.com', '--full-name', 'Eve', '--password-stdin', '--json'],
      { input: 'secret secret\n' },
    ),
    call(['user', 'create', '--email', 'eve@example.com', '--full-name', 'Eve']),
    call(['org', 'create', '--name', 'Small', '--subscriber-limit', 'many']),
  ])
  t.match(org, { code: 0, json: [{ name: 'Acme', time_zone_name: 'Europe/Berlin', subscriber_limit: 7 }] })
  t.match(list, { code: 0, json: [{ organization_id: 1, has_format: true, has_confirmed: true }] })
  t.match(created, { code: 0, json: [{ name: 'First name', field_type: 'text' }] })
  t.match(key, { code: 0, out: /^key +rollcall_\w+$/m })
  t.match(user, { code: 0, json: [{ email: 'eve@example.com', role: 'standard', active: true }] })
  t.match(noPassword, { code: 2, err: /--password-stdin/ })
  t.match(limit, { code: 2, err: /many/ })
  const [users, lists, otherLists, fields, orgs] = await Promise.all([
    call(['user', 'list', '--json']),
    call(['list', 'list', '--org', '1']),
    call(['list', 'list', '--org', String(org.json[0].id)]),
    call(['field', 'list', '--list', String(listId)]),
    call(['org', 'list']),
  ])
  t.match(users, { code: 0, json: [[{ email: 'eve@example.com' }]] })
  t.match(lists, { code: 0, out: /^ *\d+ +With all +(true|yes) +(true|yes)/m })
  t.equal(otherLists.code, 0)
  t.notMatch(otherLists.out, /With all/)
  t.match(fields.out, /^ *\d+ +First name +text/m)
  t.match(orgs.out, /Acme +Europe\/Berlin +7/)
})

t.test('lists all pages, of what was asked for', async (t) => {
  const { mailingLists, imports } = service.collections
  const {
    json: [org],
  } = await call(['org', 'create', '--name', 'With many lists', '--json'])
  const own = ['--org', String(org.id)]
  const {
    json: [list],
  } = await call(['list', 'create', '--name', 'L', ...own, '--json'])
  const [document] = await mailingLists.find({ _id: list.id }).toArray()
  const ids = Array.from({ length: 250 }, (_, i) => 900_000 + i)
  await mailingLists.insertMany(
    ids.map((_id) => ({ ...document!, _id, name: `L${_id}`, name_key: `l${_id}` })),
  )
  await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], begins_at: '2100-01-01T00:00' },
      file_source: { type: 'json', content: 'x@example.com' },
    },
  })
  const [waiting] = await imports.find({ mailing_list_id: list.id }).toArray()
  await imports.insertMany(ids.map((_id) => ({ ...waiting!, _id })))
  const [listed, active, finished] = await Promise.all([
    call(['list', 'list', ...own, '--json']),
    call(['imports', '--list', String(list.id), '--scope', 'active', '--json']),
    call(['imports', '--list', String(list.id), '--scope', 'finished', '--json']),
  ])
  const all = (kind: Ended) => [
    kind.code,
    new Set(kind.json[0].map(({ id }: Json) => id)).size,
    kind.json[0].length,
  ]
  t.same([listed, active, finished].map(all), [
    [0, 251, 251],
    [0, 251, 251],
    [0, 0, 0],
  ])
  await imports.deleteMany({ _id: { $in: ids } })
})

t.test('a log that breaks off, or an import that failed, is no success', async (t) => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/csv; charset=utf-8', 'content-length': 100 })
    response.write('half of it\n')
    setImmediate(() => response.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const failing = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email'], begins_at: '2100-01-01T00:00' },
      file_source: { type: 'json', content: 'x@example.com' },
    },
  })
  await service.collections.imports.updateOne(
    { _id: failing.id },
    { $set: { state: 'failed', finished_at: new Date(), error_message: 'the disk is full' } },
  )
  const [log, watched] = await Promise.all([
    call(['logs', '1', 'failed'], { ROLLCALL_URL: `http://127.0.0.1:${port}` }),
    call(['imports', String(failing.id), '--watch']),
  ])
  t.match(log, { code: 1, out: 'half of it\n', err: /broke off before its end/ })
  t.match(watched, { code: 1, err: /the disk is full/ })
})

t.test('imports a file, and detects its format by itself', async (t) => {
  const args = ['import', await file('people.csv', people), '--list', String(listId), '--watch']
  const ended = await run([...args, '--json'])
  t.equal(ended.code, 0)
  t.match(ended.err, /semicolons[^]*E-Mail +ann@example\.com +email[^]*Vorname +Ann +First name/)
  t.match(ended.err, /1 of the first 3 records would fail/)
  const last = ended.json.at(-1)
  t.match(last, { state: 'finished', column_mapping: ['email', 'First name', null] })
  t.match(last.stats.subscribers, { added: 2, failed: 1 })
  const [shown, log, unknown, listed] = await Promise.all([
    call(['imports', String(last.id)]),
    call(['logs', String(last.id), 'failed']),
    call(['logs', String(last.id), 'nothing']),
    call(['imports', '--list', String(listId)]),
  ])
  t.match(shown, { code: 0, out: /finished: 3 of 3 records .*\nresult +rows\nadded +2\nfailed +1\n/ })
  t.match(log, { code: 0, out: /^bob@example;Bob;fair;/m })
  t.match(unknown, { code: 1, err: /has no log nothing/ })
  t.match(listed.out, new RegExp(`${last.id} +finished +3 +3 +1 `))
})

t.test('an import of which every row failed has an exit code of its own', async (t) => {
  const source = await file('nobody.csv', 'E-Mail;Vorname\nann;Ann\nbob;Bob\n')
  const args = ['--map', 'email,First name', '--watch', '--list', String(listId)]
  const unasked = await call(['import', source, ...args])
  t.match(
    unasked,
    { code: 1, err: /all of the first 2 records would fail[^]*--yes/ },
    'it is most likely a mistake',
  )
  t.notMatch(unasked.out, /Import/)
  const ended = await call(['import', source, ...args, '--yes'])
  t.match(ended, { code: 3, out: /finished: 2 of 2 records .*\n$/, err: /result +rows\nfailed +2\n/ })
  const id = /Import (\d+) is finished/.exec(ended.out)![1]!
  t.equal((await call(['imports', id, '--watch'])).code, 3)
})

t.test('compressed, large and binary files are uploaded in any character set', async (t) => {
  const windows = Buffer.from('email\tFirst name\nwin@example.com\tx\n')
  windows[windows.lastIndexOf('x')] = 0x80
  const broken = Buffer.from(
    `email,First name\nJ\u00f6rg@example.com,a\ngood@example.com,${'\u00f6'.repeat(20)}\nbad@example.com,x\n`,
  )
  broken[broken.lastIndexOf('x')] = 0xff
  const import_ = async (name: string, bytes: Uint8Array, ...more: string[]) =>
    call(['import', await file(name, bytes), '--list', String(listId), '--watch', '--json', ...more])
  const packed = Buffer.from(windows.toString('latin1').replace('win@', 'zip@'), 'latin1')
  const wide = Buffer.from('\ufeffemail,First name\nwide@example.com,\u0142\n', 'utf16le')
  const [euro, odd, ...zipped] = await Promise.all([
    import_('windows.csv', windows, '--via', 'ftp'),
    import_('broken.csv', broken),
    import_('windows.csv.gz', gzipSync(packed)),
    import_('wide.csv.gz', gzipSync(wide)),
  ])
  t.same(
    zipped.map(({ code }) => code),
    [0, 0],
  )
  t.match(euro, { code: 0, err: /windows-1252, tabs/ })
  const firstNameOf = async (email: string) =>
    (await service.get(`/mailing_lists/${listId}/subscribers/${email}`))[0].custom_fields['First name'].value
  t.equal(await firstNameOf('win@example.com'), '€')
  t.equal(await firstNameOf('zip@example.com'), '€', 'what is packed too')
  t.equal(await firstNameOf('wide@example.com'), '\u0142')
  const refused = await call([
    ...[
      'import',
      path.join(folder, 'windows.csv'),
      '--list',
      String(listId),
      '--via',
      'ftp',
      '--begins-at',
      '3999-01-01',
    ],
  ])
  t.equal(refused.code, 1)
  t.match(odd.json.at(-1).stats.subscribers, { added: 1, failed: 2 }, 'broken UTF-8 fails alone')
  await until(
    'the end of the uploads, which go when their import has ended',
    () => storedUploads(service).entries(),
    (entries) => entries.length === 0,
  )
})

t.test('uploads over TLS to a server that is addressed by IP', { skip: missing('openssl') }, async (t) => {
  const { cert, key } = await makeCertificate(folder, 'ftp')
  const name = await file('tls.csv', 'email\ntls@example.com\n')
  const before = service.processes.ftp!
  const { ready, log } = await service.start('ftp', {
    FTP_TLS_CERT: cert,
    FTP_TLS_KEY: key,
    FTPS_PORT: '0',
    FTP_TLS_REQUIRED: 'true',
  })
  t.teardown(() => (service.processes.ftp = before))
  const { ftp, ftps } = ready as Json
  t.match([ftp, ftps], [/^ftp:\/\/127\.0\.0\.1:/, /^ftps:\/\/127\.0\.0\.1:/])
  // TLS begins with AUTH TLS or at the first byte; a server named as ftps may answer in the clear and want AUTH TLS.
  for (const url of [ftp, ftps, ftp.replace('ftp:', 'ftps:')]) {
    const args = ['import', name, '--list', String(listId), '--via', 'ftp', '--watch', '--json']
    const { code, err } = await run(args, { settings: { ROLLCALL_FTP: url, NODE_EXTRA_CA_CERTS: cert } })
    t.equal(code, 0, `${url}\n${err}\n${log()}`)
  }
  const untrusted = await run(['import', name, '--list', String(listId), '--via', 'ftp'], {
    settings: { ROLLCALL_FTP: ftps },
  })
  t.equal(untrusted.code, 1)
  t.match(untrusted.err, /NODE_EXTRA_CA_CERTS/)
})

t.test('an error says what is wrong, and its exit code says on which side', async (t) => {
  const unreachable = { ROLLCALL_URL: 'http://127.0.0.1:1' }
  const [typo, none, noFile, noEmail, map, wrongKey, away, bad, help] = await Promise.all([
    run(['imprt']),
    run([]),
    run(['import', 'nothing.csv', '--list', '1']),
    call(['import', await file('odd.csv', 'a,b\n1,2\n'), '--list', String(listId)]),
    call(['import', path.join(folder, 'people.csv'), '--list', String(listId), '--map', 'email,Nothing']),
    call(['imports'], { ROLLCALL_API_KEY: 'x'.repeat(20) }),
    run(['imports'], { settings: unreachable }),
    run(['imports'], { settings: { ROLLCALL_URL: 'nonsense' } }),
    run(['import', '--help']),
  ])
  const url = ['import', 'http://127.0.0.1:1/people.csv', '--list', String(listId)]
  const [windows, ...misused] = await Promise.all([
    call([...url, '--character-set', 'windows-1252']),
    call([...url, '--via', 'ftp']),
    call(['imports', '--watch']),
    call(['imports', '1', '--scope', 'all']),
    call(['imports', '1', '--list', '1']),
  ])
  t.match(windows, { code: 1, err: /127\.0\.0\.1/ })
  const reasons = [
    /leave out --via/,
    /add its ID/,
    /--scope, --state and --list/,
    /--scope, --state and --list/,
  ]
  for (const [i, ended] of misused.entries()) t.match(ended, { code: 2, err: reasons[i] })
  t.match(typo, { code: 2, err: /Did you mean import\?/ })
  t.match(none, { code: 2 })
  t.match(noFile, { code: 2, err: /nothing\.csv/ })
  t.match(noEmail, { code: 1, err: /--map/ })
  t.match(map, { code: 2, err: /column 2: "Nothing" is neither[^]*rollcall field create/ })
  t.match(wrongKey, { code: 1, err: /ROLLCALL_API_KEY/ })
  t.match(away, { code: 1, err: /127\.0\.0\.1:1: .*\nstart the service/ })
  t.match(bad, { code: 1, err: /ROLLCALL_URL must be/ })
  t.match(help, { code: 0, out: /Examples:\n {2}rollcall import/ })
  t.notMatch(help.out, /\u001b/)
})

t.test('says what to do where the quota is full, and uploads nothing then', async (t) => {
  const full = await startProcess('control-plane', { ...service.settings, UPLOAD_MAX_MB: '1' })
  t.teardown(() => full.stop())
  const rows = Array.from(
    { length: 40_000 },
    (_, i) => `${createHash('sha256').update(`${i}`).digest('hex')}@example.com`,
  )
  const large = await file('large.csv', `email\n${rows.join('\n')}`)
  const refused = await call(['import', large, '--list', String(listId)], { ROLLCALL_URL: full.ready.http! })
  t.match(refused, { code: 1, err: /quota of 1 MB.*\n?"rollcall imports" shows/ })
  t.notMatch(refused.err, /--via ftp/)
})

t.test('a watch resumes after the service was restarted', async (t) => {
  const created: Json = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      begins_at: '2030-01-01T00:00:00Z',
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\nx@example.com\n' },
    },
  })
  const watcher = start(['imports', String(created.id), '--watch', '--json'])
  const seen: Json[] = []
  createInterface({ input: watcher.stdout! }).on('line', (line) => seen.push(JSON.parse(line)))
  const end = ended(watcher)
  await until(
    'the first view',
    async () => seen.length,
    (count) => count > 0,
  )
  await service.processes['control-plane']!.stop('SIGKILL')
  await service.start('control-plane', {
    HTTP_PORT,
    // From here on, files above this limit must be uploaded by FTP.
    HTTP_INLINE_LIMIT_MB: '1',
  })
  t.match(await call(['cancel', String(created.id)]), { code: 0, out: /cancelled/ })
  t.equal((await end).code, 1)
  t.equal(seen.at(-1).state, 'cancelled')
})

t.test('waits for a service that went away after a long silence, and says it once', async (t) => {
  const view = (state: string) =>
    `data: ${JSON.stringify({ state, stats: { number_of_records: 1, records_imported: 0 }, download: null })}\n\n`
  let calls = 0
  const server = createServer((_request, response) => {
    calls += 1
    response.setHeader('content-type', 'text/event-stream')
    if (calls === 1) {
      response.write(view('importing'))
      // Longer than the watcher's timeout.
      setTimeout(() => response.destroy(), 300)
    } else if (calls === 3 || calls === 4) {
      response.writeHead(503, { 'content-type': 'text/html' }).end('away')
    } else response.end(view('finished'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const client = new ApiClient(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined)
  t.teardown(() => client.destroy())
  const silent = new PassThrough() as unknown as NodeJS.WriteStream
  const said: string[] = []
  silent.on('data', (text: Buffer) => said.push(text.toString()))
  const watch = (timeoutMs: number, onView?: () => void) =>
    watchImport(client, 1, {
      title: 'x',
      out: silent,
      signal: new AbortController().signal,
      timeoutMs,
      ...(onView === undefined ? {} : { onView }),
    })
  t.equal((await watch(100)).state, 'finished')
  said.splice(0)
  t.equal((await watch(60_000)).state, 'finished')
  t.equal(said.filter((line) => line.includes("can't be reached")).length, 1)
  said.splice(0)
  calls = 2
  await watch(60_000, () => undefined)
  t.match(said, [/can't be reached/], 'also beside JSON')
})

t.test('a command ends quietly when its output is no longer read', async (t) => {
  const content = Array.from({ length: 20_000 }, (_, i) => `${i}${'x'.repeat(60)}@example.com`).join('\n')
  const ended = await run(['import', '-', '--list', String(listId), '--dry-run', '--watch', '--json'], {
    input: content,
  })
  t.equal(ended.json.at(-1).stats.subscribers.added, 20_000)
  t.match(ended.err, /uploaded as stdin-/, 'what the service does not take inline')
  const reader = start(['logs', String(ended.json.at(-1).id), 'added'])
  let err = ''
  reader.stderr!.setEncoding('utf8').on('data', (text: string) => (err += text))
  await once(reader.stdout!, 'data')
  reader.stdout!.destroy()
  const [code] = (await once(reader, 'exit')) as [number | null]
  t.equal(code, 0)
  t.equal(err, '')
})

t.test('a command does its work and ends with the right exit code when its output is closed', async (t) => {
  const list = String((await service.post('/mailing_lists', { mailing_list: { name: 'Unheard' } })).id)
  const unheard = async (...args: string[]) => {
    const child = start(args)
    child.stderr!.destroy()
    child.stdin!.end()
    return (await ended(child)).code
  }
  const source = await file('unheard.csv', 'email\nann@example.com\n')
  t.equal(await unheard('import', source, '--list', list, '--watch'), 0)
  t.equal((await service.get(`/mailing_lists/${list}/subscriber_imports?scope=all`)).length, 1)
  t.equal(await unheard('import', 'nothing.csv', '--list', list), 2)
  t.equal(await unheard('import', source, '--list', '99999'), 1)
  const watched = start([
    ...['import', source, '--list', list, '--watch', '--json', '--begins-at', '2030-01-01T00:00:00Z'],
  ])
  const code = once(watched, 'exit')
  await once(watched.stdout!, 'data')
  watched.stdout!.destroy()
  const [{ id }] = await service.get(`/mailing_lists/${list}/subscriber_imports?scope=active`)
  await service.post(`/subscriber_imports/${id}/cancel`)
  t.same(await code, [141, null], 'without a wait the end is not reported')
})

t.test(
  'says that standard output is full',
  { skip: existsSync('/dev/full') ? false : 'needs /dev/full' },
  async (t) => {
    const full = await open('/dev/full', 'w')
    const child = spawn(process.execPath, [program, 'list', 'list'], {
      cwd: folder,
      env: environment(),
      stdio: ['ignore', full.fd, 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let err = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (err += text))
    const [code] = (await once(child, 'close')) as [number | null]
    await full.close()
    t.equal(code, 1)
    t.match(err, /^rollcall: can't write to standard output: .*ENOSPC.*\n$/)
  },
)

t.test(
  'asks on a terminal, shows a bar, and leaves the import alone on Ctrl-C',
  { skip: hasTerminals ? false : 'python3 with pty not installed' },
  async (t) => {
    const args = ['import', await file('people.csv', people), '--list', String(listId), '--watch']
    const [yes, mapped, no, typed, stopped] = await Promise.all([
      onTerminal(args, [['[Y/n', 'y\\n']]),
      onTerminal(args, [['[Y/n', 'email,-,-\\n']]),
      onTerminal(args, [['[Y/n', 'n\\n']]),
      onTerminal(
        ['import', '-', '--list', String(listId), '--dry-run'],
        [
          ['', 'email\\nann@example.com\\n\\x04'],
          ['[Y/n', 'y\\n'],
        ],
      ),
      onTerminal(
        [...args, '--begins-at', '2030-01-01T00:00:00Z'],
        [
          ['[Y/n', '\\n'],
          ['scheduled', '\\x03'],
        ],
      ),
    ])
    const finishedId = /Import (\d+) is/.exec(yes.out)?.[1] ?? '0'
    t.match(await onTerminal(['logs', finishedId, 'failed'], [['bob', '']]), {
      code: 0,
      out: /bob@example;Bob/,
    })
    const hostile = await file('hostile.csv', 'email\n\u001b]0;owned\u0007=1\n')
    const watched = await run([
      'import',
      hostile,
      '--list',
      String(listId),
      '--watch',
      '--map',
      'email',
      '--json',
      '--yes',
    ])
    const hostileId = String(watched.json.at(-1).id)
    t.match(await run(['logs', hostileId, 'failed']), { out: /^\u001b]0;owned\u0007=1,/m }, 'a file as it is')
    const shown = await onTerminal(['logs', hostileId, 'failed'], [['owned', '']])
    t.match(shown, { code: 0, out: /^\\x1b]0;owned\\x07=1,/m })
    t.notMatch(shown.out, /\u001b/)
    t.match(yes, { code: 0, out: /█[^]*100%[^]*finished/ })
    t.match(mapped, { code: 0, out: /finished/ })
    t.match(no, { code: 1, out: /nothing was imported/ })
    t.match(typed, { code: 0, out: /Import \d+ is/ }, 'a file that is typed')
    t.match(stopped, { code: 130, out: /Import \d+ continues/ })
    const id = /Import (\d+) continues/.exec(stopped.out)![1]
    t.equal((await service.get(`/subscriber_imports/${id}`)).state, 'scheduled')
  },
)

t.test('makes no key where there is no service', async (t) => {
  const MONGODB_DATABASE = `${service.db.databaseName}_none`
  t.teardown(() => service.client.db(MONGODB_DATABASE).dropDatabase())
  const { MONGODB_URI: _, ...withoutUri } = service.settings
  const [noFolder, noDatabase] = await Promise.all([
    run(['recover-key'], { settings: { ...withoutUri, DATA_DIR: path.join(folder, 'none') } }),
    run(['recover-key'], { settings: { ...service.settings, MONGODB_DATABASE } }),
  ])
  t.match(noFolder, { code: 1, out: '', err: /no Rollcall in DATA_DIR/ })
  t.notOk(existsSync(path.join(folder, 'none')))
  t.match(noDatabase, { code: 1, out: '', err: /no Rollcall at MONGODB_URI/ })
})

t.test('others can end the transaction in which a key is made, as its session is registered', async (t) => {
  const child = start(['recover-key'], {
    ...service.settings,
    ...crashAt('update installation credentials_revision > commitTransaction before 1 SIGSTOP'),
  })
  const end = ended(child)
  let log = ''
  child.stderr!.on('data', (text: string) => (log += text))
  const session = await until(
    'its transaction',
    async () => / in session (\w+)\n/.exec(log)?.[1],
    (id) => id !== undefined,
  )
  const registered = await service.collections.processes.findOne({ process_id: child.pid! })
  await resume(child, () => log)
  t.ok(registered?.session_ids.some((id) => Buffer.from(id).toString('hex') === session))
  t.equal((await end).code, 0)
  t.equal(await service.collections.processes.countDocuments({ process_id: child.pid! }), 0)
})

t.test('makes a key where all are lost, starts processes, and completes commands', async (t) => {
  const [recovered, ftp, script, fish, zsh] = await Promise.all([
    run(['recover-key'], { settings: service.settings }),
    startProgram([program, 'ftp'], service.settings),
    call(['completion', 'bash']),
    call(['completion', 'fish']),
    call(['completion', 'zsh']),
  ])
  t.equal(recovered.code, 0, recovered.err)
  const answer = await service.call('GET', '/api_keys', undefined, { key: recovered.out.trim() })
  t.match(answer.body.data.at(-1), { name: 'Recovered key', role: 'system_admin' })
  t.match(ftp.ready, { ready: true, process: 'ftp' })
  t.equal(await ftp.stop(), 0, ftp.log())
  t.equal(script.code, 0)
  const complete = (...words: string[]) =>
    spawnSync(
      'bash',
      [
        '-c',
        `${script.out}\nCOMP_WORDS=(rollcall ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _rollcall_words; IFS=/; echo "\${COMPREPLY[*]}"`,
      ],
      { cwd: folder },
    )
      .stdout.toString()
      .trim()
  t.equal(complete('impo'), 'import/imports')
  t.equal(complete('org', 'cr'), 'create')
  t.match(complete('import', '--vi'), /--via/)
  t.equal(complete('import', 'x.csv', '--via', ''), 'inline/http/ftp')
  await file('with blanks.csv', '')
  t.equal(complete('import', 'with\\ bl'), 'with blanks.csv')
  t.match(complete('logs', '7', 'skipped_o'), /skipped_overwrite\/skipped_over_limit/)

  const shell = (name: string, args: string[]) =>
    spawnSync(name, args, { cwd: folder, env: { ...process.env, XDG_CONFIG_HOME: folder, HOME: folder } })
  await t.test('words are completed in fish', { skip: missing('fish') }, async (t) => {
    const offered = shell('fish', ['-c', `${fish.out}\ncomplete -C 'rollcall list '`]).stdout.toString()
    t.match(offered, /^create\t[^]*^list\t/m, 'of a group that is called as one of its commands')
  })
  await t.test('words are completed in zsh', { skip: missing('zsh') }, async (t) => {
    await file('_rollcall', zsh.out)
    const begin =
      'fpath=($PWD $fpath); autoload -U compinit bashcompinit && compinit -u -D && bashcompinit; bashcompinit() { : }'
    const firstTab = '_bash_complete() { print -- "$@" }; _rollcall; print $_comps[rollcall]'
    const said = shell('zsh', ['-f', '-c', `${begin}; ${firstTab}`]).stdout.toString()
    t.match(said, /^-o filenames -F _rollcall_words\n_bash_complete -o filenames -F _rollcall_words\n$/)
  })
})
