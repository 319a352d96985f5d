import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { Client } from 'basic-ftp'
import t from 'tap'
import { endpoints } from '../../control-plane/endpoints.ts'
import { installCommands } from '../../ftp/commands/command-table.ts'
import { commandTable } from '../../ftp/ftp-srv-internals.ts'
import { commandLine, hasTerminals } from '../helpers/command-line.ts'
import { ftpFronts } from '../helpers/ftp-front.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { HttpUpload } from '../helpers/http-upload.ts'
import { missing } from '../helpers/missing-programs.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  createList,
  importEnd,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/** Keys for partners: the contract's part beyond the API, section 11. */

t.setTimeout(300_000)
const service = await startService(t, ['control-plane', 'ftp', 'engine'])
const { call } = service
const origin = controlPlaneOrigin(service)
const ftpUrl = service.processes['ftp']!.ready.ftp!
const stored = storedUploads(service)
const run = promisify(execFile)
const { call: command, onTerminal } = await commandLine(t, service)

const makeKey = (uploads_folder: string | null, name = uploads_folder ?? 'root'): Promise<Json> =>
  service.post('/api_keys', { api_key: { name, role: 'uploads', uploads_folder } })
const changeKey = ({ id }: Json, change: object) => call('PUT', `/api_keys/${id}`, { api_key: change })
const acme = await makeKey('acme')
const other = await makeKey('other')

interface HttpAnswer {
  status: number
  body: string
}

/** A path as it is, which `fetch` would normalize. */
async function raw(method: string, sentPath: string, key: string, body?: string): Promise<HttpAnswer> {
  const { hostname, port } = new URL(origin)
  const sent = request({
    ...{ method, hostname, port, path: `/svc/api/v2${sentPath}` },
    headers: { authorization: basic(`api:${key}`), 'content-type': 'text/csv' },
  })
  sent.end(body)
  const [response] = await once(sent, 'response')
  return { status: response.statusCode, body: await text(response) }
}

const put = (name: string, content: string, key = bootstrapKey) =>
  raw('PUT', `/uploads/${encodeURIComponent(name)}`, key, content)
const namesBy = async (key: string): Promise<string[]> =>
  JSON.parse((await raw('GET', '/uploads', key)).body).data.map(({ filename }: Json) => filename)

t.test('a key of the role uploads has no user, and a folder of its own or none', async (t) => {
  t.match(acme, { role: 'uploads', uploads_folder: 'acme', user_id: null })
  t.match(await makeKey(null), { role: 'uploads', uploads_folder: null })
  t.match((await makeKey('acme', 'a second one')).uploads_folder, 'acme')
  const refusals: [key: object, message: RegExp][] = [
    [{ role: 'standard', uploads_folder: 'x' }, /role uploads/],
    [{ uploads_folder: 'x' }, /role uploads/],
    [{ role: 'uploads', user_id: 1 }, /user_id/],
    ...['', 'a b', 'a/b', '..', '.', 'a.b', 'ä', 'x'.repeat(51), 'results', 'RESULTS', 'Results'].map(
      (uploads_folder): [object, RegExp] => [{ role: 'uploads', uploads_folder }, /^uploads_folder must be/],
    ),
    [{ role: 'uploads', uploads_folder: 5 }, /uploads_folder/],
    [{ role: 'uploads', uploads_folder: 'ACME' }, /"ACME" differs from the folder "acme"/],
  ]
  for (const [key, message] of refusals) {
    const { body } = await call('POST', '/api_keys', { api_key: { name: 'x', ...key } })
    t.equal(body.error_code, 'validation_failed', JSON.stringify(key))
    t.match(body.error_message, message)
  }
  t.match(await makeKey('x'.repeat(50)), { uploads_folder: 'x'.repeat(50) })

  const { id } = await makeKey('short-lived')
  t.match(
    (await changeKey({ id }, { role: 'standard', uploads_folder: 'y' })).body.error_message,
    /role uploads/,
  )
  t.match((await changeKey({ id }, { uploads_folder: 'Acme' })).body.error_message, /in case alone/)
  t.match((await changeKey({ id }, { role: 'standard' })).body.data, {
    role: 'standard',
    uploads_folder: null,
  })
  t.match((await changeKey({ id }, { uploads_folder: 'y' })).body.error_message, /role uploads/)
  t.match((await changeKey({ id }, { role: 'uploads' })).body.data, { role: 'uploads', uploads_folder: null })
  t.match((await changeKey({ id }, { uploads_folder: 'y' })).body.data, { uploads_folder: 'y' })
  t.match((await changeKey({ id }, { uploads_folder: null })).body.data, { uploads_folder: null })
  const user = await service.post('/users', {
    user: {
      ...{ full_name: 'A', email: 'a@example.com', active: true, role: 'standard' },
      ...{ password1: 'correct horse battery', password2: 'correct horse battery' },
    },
  })
  t.match((await changeKey({ id }, { user_id: user.id })).body.error_message, /belongs to no user/)
  t.match((await changeKey({ id }, { user_id: user.id, role: 'standard' })).body.data, { role: 'standard' })
  t.match((await changeKey({ id }, { role: 'uploads' })).body.error_message, /belongs to no user/)
  t.match((await changeKey({ id }, { role: 'uploads', user_id: null })).body.data, { role: 'uploads' })
  const { body } = await call('PUT', `/users/${user.id}`, { user: { role: 'uploads' } })
  t.equal(body.error_code, 'validation_failed', 'users have no such role')
})

t.test('whoami shows its role and folder, and no permission', async (t) => {
  const { data } = (await call('GET', '/whoami', undefined, { key: acme.key })).body
  t.match(data, { role: 'uploads', uploads_folder: 'acme', user: null, organization: { id: 1 } })
  t.same(Object.values(data.permissions).flat(), [])
})

t.test('of all endpoints it may call those of uploads alone', async (t) => {
  const allowed = endpoints.filter(({ path: each }) => /^\/(uploads|whoami)\b/.test(each))
  t.ok(allowed.length >= 7)
  for (const { method, path: template } of endpoints) {
    const isAllowed = allowed.some((each) => each.path === template)
    const { status, body } = await raw(method.toUpperCase(), template.replaceAll(/:\w+/g, '1'), acme.key)
    t.equal(status === 403, !isAllowed, `${method} ${template}: ${status} ${body.slice(0, 200)}`)
  }
})

const inFolder = 'email\nann@example.com\n'

t.test('its root is its folder, which the others see as a part of the name', async (t) => {
  t.equal((await put('people.csv', inFolder, acme.key)).status, 200)
  const session = await FtpSession.open(ftpUrl, acme.key)
  t.match(await session.upload('STOR more.csv', inFolder), /^226 /)
  t.match(await session.command('PWD'), /^257 "\/"/)
  t.same((await session.download('NLST')).text, 'more.csv\r\npeople.csv\r\n')
  t.notMatch((await session.download('MLSD')).text, /type=dir/)
  t.match(await session.command('CWD acme'), /^550 /)
  t.match(await session.command('MKD x'), /^550 /)
  session.close()
  t.same(await namesBy(acme.key), ['more.csv', 'people.csv'])
  t.same(await namesBy(other.key), [])
  t.same(await namesBy(bootstrapKey), ['acme/more.csv', 'acme/people.csv'])
  t.same(await stored.entries(), ['acme/people.csv', 'acme/more.csv'])
  t.match(service.processes['ftp']!.log(), /"filename":"acme\/more\.csv"/, 'the log has the whole name')
  t.match(service.processes['control-plane']!.log(), /"filename":"acme\/people\.csv"/)
})

t.test('a key of the organization works with folders as with the root', async (t) => {
  for (const address of ['/uploads/acme%2Fpeople.csv', '/uploads/acme/people.csv'])
    t.match(await raw('GET', address, bootstrapKey), { status: 200, body: inFolder })
  t.equal((await put('plain.csv', inFolder)).status, 200)
  const session = await FtpSession.open(ftpUrl)
  const lines = async (line: string) => {
    const { text: listing, last } = await session.download(line)
    t.match(last, /^226 /, line)
    return listing.split('\r\n').filter((each) => each !== '')
  }
  t.same(await lines('NLST'), ['plain.csv'])
  t.match(await lines('LIST'), [/^drwxr-x---.* acme$/, /^-rw-r-----.* plain\.csv$/])
  t.match(await lines('MLSD'), [/^type=dir;.*perm=cel; acme$/, /^type=file;.* plain\.csv$/])
  t.same(await lines('NLST acme'), ['acme/more.csv', 'acme/people.csv'])
  t.same(await lines('NLST acme/p*.csv'), ['acme/people.csv'])
  t.same(await lines('NLST *.csv'), ['plain.csv'])
  t.match(await lines('LIST acme'), [/ more\.csv$/, / people\.csv$/])
  t.match(await session.command('SIZE acme/people.csv'), `213 ${inFolder.length}`)
  t.match(await session.command('SIZE acme'), /^550 /)
  for (const refused of [
    'MKD acme',
    'MKD new',
    'RMD acme',
    'RNFR acme',
    'CWD other',
    'CWD nowhere',
    'DELE acme',
  ])
    t.match(await session.command(refused), /^550 /, refused)
  t.match(await session.command('CWD /acme'), /^250 "\/acme"/)
  t.same(await lines('NLST'), ['more.csv', 'people.csv'])
  t.match(await lines('MLSD'), [/ more\.csv$/, / people\.csv$/])
  t.equal((await session.download('RETR people.csv')).text, inFolder)
  t.match(await session.upload('STOR by-us.csv', 'x'), /^226 /)
  t.same(await lines('NLST /*.csv'), ['/plain.csv'])

  // Out of the folder, into another one that only a key has, between folders and back.
  const rename = async (from: string, to: string) => {
    t.match(await session.command(`RNFR ${from}`), /^350 /)
    return session.command(`RNTO ${to}`)
  }
  t.match(await rename('by-us.csv', '/by-us.csv'), /^250 /)
  t.match(await session.command('CDUP'), /^250 "\/"/)
  t.match(await rename('by-us.csv', 'other/by-us.csv'), /^250 /)
  t.match(await rename('other/by-us.csv', 'acme/by-us.csv'), /^250 /)
  t.match(await rename('acme/by-us.csv', 'nowhere/by-us.csv'), /^550 /)
  t.match(await rename('acme/by-us.csv', 'acme'), /^553 /)
  t.match(await rename('acme/by-us.csv', 'other'), /^553 /)
  t.match(await rename('acme/by-us.csv', 'results'), /^553 .*reserved/)
  t.match(await rename('acme/by-us.csv', 'acme/results'), /^553 .*reserved/)
  t.equal((await put('results', 'x')).status, 422)
  t.equal((await put('results', 'x', acme.key)).status, 422)
  t.match(await session.command('DELE acme/by-us.csv'), /^250 /)
  await t.rejects(session.upload('STOR nowhere/x.csv', 'x'), /^550 .*no such folder/)
  await t.rejects(session.upload('STOR a.b/x.csv', 'x'), /^550 /)
  await t.rejects(session.upload('STOR acme/b/x.csv', 'x'), /^550 /)
  session.close()
  t.same((await stored.entries()).sort(), ['acme/more.csv', 'acme/people.csv', 'plain.csv'])

  const { id: listId } = await createList(service)
  const created = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'upload_directory', filename: 'acme/people.csv' },
    },
  })
  t.equal(created.file_source.filename, 'acme/people.csv')
  t.match(await importEnd(service, created.id), { state: 'finished' })
})

t.test('a folder is there while a key has it or a file lies in it, and no file has its name', async (t) => {
  const key = await makeKey('brief')
  const isFolder = { status: 422, body: /"brief\\" is the name of a folder/ }
  t.match(await put('brief', 'x'), isFolder)
  t.equal((await put('Brief', 'x')).status, 200, 'another case is another name')
  t.equal((await put('brief/of-us.csv', 'x')).status, 200)
  t.equal((await call('DELETE', `/api_keys/${key.id}`)).body.success, true)
  t.match(await put('brief', 'x'), isFolder, 'a file lies in it')
  t.equal((await put('brief/second.csv', 'x')).status, 200)
  t.equal((await raw('DELETE', '/uploads/brief/second.csv', bootstrapKey)).status, 200)
  const session = await FtpSession.open(ftpUrl)
  t.match(await session.command('CWD brief'), /^250 /)
  t.equal((await raw('DELETE', '/uploads/brief/of-us.csv', bootstrapKey)).status, 200)
  t.match(await session.download('LIST'), { text: '', last: /^226 / })
  await t.rejects(session.upload('STOR again.csv', 'x'), /^550 .*no such folder/)
  t.match(await session.command('CWD /brief'), /^250 /, 'the current directory stays one')
  t.match(await session.command('CWD /'), /^250 /)
  t.match(await session.command('CWD brief'), /^550 /)
  session.close()
  t.match(await put('brief/x.csv', 'x'), { status: 422, body: /is in no folder that there is/ })
  t.equal((await put('brief', 'x')).status, 200)
  const { body } = await call('POST', '/api_keys', {
    api_key: { name: 'x', role: 'uploads', uploads_folder: 'brief' },
  })
  t.match(body.error_message, /"brief" is the name of a file/)
  t.equal((await raw('DELETE', '/uploads/brief', bootstrapKey)).status, 200)

  // An unfinished upload keeps its folder, and its name.
  const begun = await raw('PUT', '/uploads/acme/part.csv', bootstrapKey, 'x')
  t.equal(begun.status, 200)
  t.equal((await raw('DELETE', '/uploads/acme/part.csv', bootstrapKey)).status, 200)
})

t.test('a folder and a file of its name are never made side by side', async (t) => {
  for (let i = 0; i < 20; i += 1) {
    const name = `raced-${i}`
    const [file, key] = await Promise.all([
      put(name, 'x'),
      call('POST', '/api_keys', { api_key: { name, role: 'uploads', uploads_folder: name } }),
    ])
    t.equal(Number(file.status === 200) + Number(key.body.success), 1, `${file.body} ${key.text}`)
    if (key.body.success !== true) await raw('DELETE', `/uploads/${name}`, bootstrapKey)
  }
})

/** The file of the other folder by all kinds of names, as they stand in a path or after a verb. */
const foreignNames = [
  ...[
    'other/secret.csv',
    '/other/secret.csv',
    '//other/secret.csv',
    './other/secret.csv',
    '/./other/secret.csv',
  ],
  ...['../other/secret.csv', '/../other/secret.csv', '../../other/secret.csv', 'acme/../other/secret.csv'],
  ...[
    '/acme/../../other/secret.csv',
    '..//other//secret.csv',
    '.././other/./secret.csv',
    '~/other/secret.csv',
  ],
  ...['~other/secret.csv', '../other/../other/secret.csv', 'x/../../other/secret.csv', '..other/secret.csv'],
  ...[
    '..\\other\\secret.csv',
    '\\other\\secret.csv',
    'other\\secret.csv',
    '..\\..\\other\\secret.csv',
    '..\\/other/secret.csv',
  ],
  ...[
    '%2e%2e/other/secret.csv',
    '..%2fother%2fsecret.csv',
    '%2fother%2fsecret.csv',
    '..%5cother%5csecret.csv',
  ],
  ...[
    '%252e%252e%252fother%252fsecret.csv',
    'other%2Fsecret.csv',
    'other%2fsecret.csv',
    '..%c0%afother%c0%afsecret.csv',
  ],
  ...[
    '．．/other/secret.csv',
    '..／other／secret.csv',
    'other／secret.csv',
    'other∕secret.csv',
    'other⁄secret.csv',
  ],
  ...[
    '../Other/secret.csv',
    '../OTHER/SECRET.CSV',
    'OTHER/secret.csv',
    '/other/Secret.csv',
    'other/secret.csv/',
  ],
  ...[
    '../other/secret.csv/.',
    '../other',
    '/other',
    'other',
    'other/',
    '/other/',
    '..',
    '../',
    '/..',
    '/../..',
  ],
  ...[
    'other/*.csv',
    '../other/*',
    '*/secret.csv',
    '*/*',
    '/*/*',
    '..*',
    '[o]ther/secret.csv',
    '?ther/secret.csv',
  ],
  ...[
    'acme/other/secret.csv',
    'results/secret.csv',
    '1/other/secret.csv',
    '../1/other/secret.csv',
    '../../uploads/other/secret.csv',
  ],
  ...[
    '-la ../other',
    '-a /other/secret.csv',
    'other/secret.csv;type=i',
    'secret.csv\u0000',
    '/other/secret.csv ',
    'other\u2215secret.csv',
  ],
  ...[
    'othe\u0072\u0301/secret.csv',
    'o\u200bther/secret.csv',
    '\ufeffother/secret.csv',
    'file:///other/secret.csv',
  ],
]

t.test('two folders do not see each other, by whatever name', async (t) => {
  t.ok(foreignNames.length >= 60)
  const secret = 'secret content'
  t.equal((await put('secret.csv', secret, other.key)).status, 200)
  const ofOthers = async () =>
    (await service.collections.uploads.find({ name: { $not: /^acme\// } }).toArray()).map((record) => record)
  const before = await ofOthers()

  const session = await FtpSession.open(ftpUrl, acme.key)
  await session.upload('STOR mine.csv', 'mine')
  const isSilent = (reply: string) =>
    !reply.includes(secret) && !/\bother\b[^]*\bsecret\.csv\b[^]*size=/.test(reply)
  // The name sent comes back in refusals, so what is compared is that no reply succeeds with the other's content.
  for (const name of foreignNames.filter((each) => !each.includes('\0'))) {
    for (const verb of ['RETR', 'LIST', 'NLST', 'MLSD']) {
      const { text: listing, last } = await session.download(`${verb} ${name}`)
      t.notMatch(listing, /secret/, `${verb} ${name}: ${last}`)
    }
    for (const verb of ['SIZE', 'MDTM', 'MLST', 'STAT', 'RNFR']) {
      const reply = await session.command(`${verb} ${name}`)
      if (/^2|^3/.test(reply)) t.notMatch(reply, /secret|Size=14/i, `${verb} ${name}: ${reply}`)
      t.ok(isSilent(reply), reply)
    }
    await session.command(`CWD ${name}`)
    t.match(await session.command('PWD'), /^257 "\/"/, `CWD ${name}`)
    for (const verb of ['DELE', 'MFMT 20260101000000', 'SITE UTIME 20260101000000', 'MKD', 'RMD'])
      await session.command(`${verb} ${name}`)
    await session.command('RNFR mine.csv')
    if (/^250/.test(await session.command(`RNTO ${name}`))) {
      await session.command(`RNFR ${name}`)
      await session.command('RNTO mine.csv')
    }
    await session.upload(`STOR ${name}`, 'overwritten').catch(() => undefined)
    await session.upload(`APPE ${name}`, 'appended').catch(() => undefined)
    for (const encoded of [name, encodeURIComponent(name), encodeURI(name)]) {
      if (/[^\x21-\x7e]/.test(encoded)) continue
      const address = `/uploads/${encoded}`
      const { status, body } = await raw('GET', address, acme.key)
      // What was stored above under a strange name lies in the own folder.
      t.ok(
        !body.includes(secret) && (status !== 200 || /^(overwritten|appended|\{)/.test(body)),
        `${address} ${body}`,
      )
      await raw('PUT', address, acme.key, 'overwritten')
      await raw('DELETE', address, acme.key)
    }
  }
  session.close()
  t.same(await ofOthers(), before, 'nothing outside of the folder has changed')
  t.same(await namesBy(other.key), ['secret.csv'])
  t.match(await raw('GET', '/uploads/secret.csv', other.key), { status: 200, body: secret })
})

t.test('no verb of FTP shows or changes anything outside of the folder', async (t) => {
  const before = await service.collections.uploads.find({ name: { $not: /^acme\// } }).toArray()
  installCommands()
  const verbs = Object.keys(commandTable).filter((verb) => !['QUIT', 'AUTH', 'STOR', 'APPE'].includes(verb))
  t.ok(verbs.length > 35)
  for (const verb of verbs) {
    const session = await FtpSession.open(ftpUrl, acme.key)
    for (const line of [`${verb} /other/secret.csv`, `${verb} other`, verb]) {
      const { text: data, last } = await session.download(line).catch(() => ({ text: '', last: '' }))
      t.notMatch(data, /secret|plain/, line)
      if (/^[23]/.test(last)) t.notMatch(last, /secret\.csv;|plain/, `${line}: ${last}`)
    }
    session.close()
  }
  t.same(await service.collections.uploads.find({ name: { $not: /^acme\// } }).toArray(), before)
})

t.test('a change of role or folder ends sessions and transfers within 5 s, and moves nothing', async (t) => {
  for (const change of [{ uploads_folder: 'moved' }, { role: 'organization_admin' }]) {
    const tookMs = await repeatWhile(
      async () => {
        const key = await makeKey('moving')
        const session = await FtpSession.open(ftpUrl, key.key)
        const data = await session.beginUpload('STOR by-ftp.csv')
        data.on('error', () => undefined).write('x')
        const headers = { 'content-length': 10 }
        const upload = new HttpUpload(origin, 'by-http.csv', { key: key.key, headers })
        upload.request.on('error', () => undefined)
        upload.request.write('x')
        await until(
          'both uploads',
          async () => (await stored.entries()).filter((name) => name.startsWith('.unfinished-')).length,
          (count) => count >= 2,
        )
        const changedAt = performance.now()
        t.equal((await changeKey(key, change)).body.success, true)
        t.match(await session.ended(), /421 .*API key/)
        t.match(await upload.reply, { status: 401 })
        const tookMs = performance.now() - changedAt
        for (const name of ['by-ftp.csv', 'by-http.csv']) {
          await until(
            'an unfinished upload',
            () => stored.isLocked(`moving/${name}`),
            (isLocked) => !isLocked,
          )
          const { status } = await raw('DELETE', `/uploads/moving/${name}`, bootstrapKey)
          t.equal(status, 200, 'what came stays as an unfinished upload of the old folder')
        }
        return tookMs
      },
      (tookMs) => tookMs >= 5_000,
    )
    t.ok(tookMs < 5_000, `${tookMs} ms`)
  }
})

t.test("a partner's key has at most half of its organization's sessions", async (t) => {
  const { start } = await ftpFronts(t, service)
  const { url } = await start(t, { sessions: { inProcess: 100, perAddress: 100, perAccount: 5 } })
  const sessions = [await FtpSession.open(url, acme.key), await FtpSession.open(url, acme.key)]
  await t.rejects(FtpSession.open(url, acme.key), /421 too many sessions with this API key/)
  for (const key of [other.key, bootstrapKey, bootstrapKey]) sessions.push(await FtpSession.open(url, key))
  await t.rejects(FtpSession.open(url, bootstrapKey), /421 too many sessions of this account/)
  await t.rejects(FtpSession.open(url, other.key), /421 too many sessions of this account/)
  sessions[0]!.close()
  await until(
    'a session in the place of the one that ended',
    () =>
      FtpSession.open(url, other.key).then(
        (session) => sessions.push(session),
        () => 0,
      ),
    (count) => count > 0,
  )
  for (const session of sessions) session.close()
})

t.test('basic-ftp, lftp and curl work as in a directory of their own', async (t) => {
  const { hostname, port } = new URL(ftpUrl)
  const client = new Client()
  await client.access({ host: hostname, port: Number(port), user: 'api', password: acme.key })
  const local = path.join(service.dataFolder, 'sent.csv')
  await writeFile(local, inFolder)
  await client.uploadFrom(local, 'by-basic-ftp.csv')
  t.ok(
    (await client.list()).some(({ name, size }) => name === 'by-basic-ftp.csv' && size === inFolder.length),
  )
  await t.rejects(client.cd('/other'))
  await client.downloadTo(path.join(service.dataFolder, 'got.csv'), 'by-basic-ftp.csv')
  t.equal(await readFile(path.join(service.dataFolder, 'got.csv'), 'utf8'), inFolder)
  client.close()
  const ofUs = new Client()
  await ofUs.access({ host: hostname, port: Number(port), user: 'api', password: bootstrapKey })
  t.ok((await ofUs.list()).some(({ name, isDirectory }) => name === 'acme' && isDirectory))
  await ofUs.cd('acme')
  t.ok((await ofUs.list()).some(({ name }) => name === 'by-basic-ftp.csv'))
  await ofUs.cd('..')
  await ofUs.rename('acme/by-basic-ftp.csv', 'taken.csv')
  ofUs.close()
  t.ok((await namesBy(bootstrapKey)).includes('taken.csv'))
  await raw('DELETE', '/uploads/taken.csv', bootstrapKey)
})

t.test('lftp', { skip: missing('lftp') }, async (t) => {
  const { hostname, port } = new URL(ftpUrl)
  const lftp = (key: string, commands: string) =>
    run('lftp', ['-u', `api,${key}`, '-p', port, '-e', `set net:max-retries 1; ${commands}; bye`, hostname])
  const local = path.join(service.dataFolder, 'sent.csv')
  await lftp(acme.key, `put '${local}' -o by-lftp.csv`)
  t.match((await lftp(acme.key, 'cls')).stdout, /by-lftp\.csv/)
  t.match((await lftp(bootstrapKey, 'cls; cls acme')).stdout, /acme\/\n[^]*acme\/by-lftp\.csv/)
  const folder = path.join(service.dataFolder, 'mirrored')
  await lftp(bootstrapKey, `mirror / '${folder}'`)
  t.equal(await readFile(path.join(folder, 'acme', 'by-lftp.csv'), 'utf8'), inFolder)
  await lftp(
    bootstrapKey,
    `put -O acme '${local}' -o again.csv; mget -O '${folder}' acme/again*; rm acme/again.csv`,
  )
  t.equal(await readFile(path.join(folder, 'again.csv'), 'utf8'), inFolder)
})

t.test('curl', { skip: missing('curl') }, async (t) => {
  const local = path.join(service.dataFolder, 'sent.csv')
  const api = `${origin}/svc/api/v2/uploads`
  await run('curl', ['-sf', '-u', `api:${acme.key}`, '-T', local, `${api}/by-curl.csv`])
  await run('curl', ['-sf', '-u', `api:${acme.key}`, '-T', local, `${ftpUrl}/by-curl-ftp.csv`])
  const { stdout } = await run('curl', ['-sf', '-u', `api:${bootstrapKey}`, `${ftpUrl}/acme/by-curl-ftp.csv`])
  t.equal(stdout, inFolder)
  await t.rejects(run('curl', ['-sf', '-u', `api:${acme.key}`, `${ftpUrl}/other/secret.csv`]))
  t.ok((await namesBy(acme.key)).includes('by-curl.csv'))
})

t.test('rollcall key create asks for the role, and prints what to send to a partner', async (t) => {
  const create = (...options: string[]) =>
    command(['key', 'create', '--name', 'Partner', ...options], { ROLLCALL_FTP: ftpUrl })
  t.match(await create(), { code: 2, err: /--role .*--uploads/ })
  t.match(await create('--uploads', '--role', 'standard'), { code: 2, err: /--role/ })
  t.match(await create('--folder', 'x'), { code: 2, err: /--folder .*--uploads/ })
  t.match(await create('--role', 'standard', '--folder', 'x'), { code: 2, err: /--folder/ })
  t.match(await create('--uploads', '--folder', 'a b'), { code: 1, err: /uploads_folder must be/ })
  const bare = await create('--uploads', '--folder', 'by-command', '--json')
  t.match(bare, { code: 0, json: [{ role: 'uploads', uploads_folder: 'by-command' }] })
  t.equal(bare.err, '')

  const { code, out, err } = await create('--uploads', '--folder', 'by-command')
  t.equal(code, 0)
  t.match(err, /Its files are by-command\/NAME/)
  const [key = ''] = /rollcall_\w+/.exec(out) ?? []
  t.equal(out.split(key).length, 2, 'the key stands in one place')
  for (const line of [
    `Ports     ${new URL(origin).port} (HTTP), ${new URL(ftpUrl).port} (FTP)`,
    'User      api',
  ])
    t.ok(out.includes(line), out)
  t.match(out, /^ {2}curl .*\/svc\/api\/v2\/uploads\/people\.csv$/m)
  t.match(
    out,
    new RegExp(`^  lftp -u api -p ${new URL(ftpUrl).port} -e 'put people.csv; bye' 127.0.0.1$`, 'm'),
  )
  t.notMatch(out, /rollcall(?!_)|folder/i, 'it names neither the product nor the folder')
  t.match(await call('GET', '/uploads', undefined, { key }), { status: 200 })

  const elsewhere = await service.start('control-plane', { PUBLIC_FTP_URL: 'ftp://files.invalid:2100' })
  const settings = { ROLLCALL_URL: elsewhere.ready.http!, ROLLCALL_FTP: '' }
  t.match(
    await command(['key', 'create', '--name', 'Usual', '--uploads'], {
      ROLLCALL_FTP: 'ftp://files.invalid:21',
    }),
    { code: 0, out: /, 21 \(FTP\)$[^]* -p 21 .* files\.invalid$/m },
  )
  const published = await command(['key', 'create', '--name', 'Told', '--uploads'], settings)
  t.match(published, { code: 0, out: /^Host +127\.0\.0\.1 \(HTTP\), files\.invalid \(FTP\)$/m })
  t.match(published.out, /-p 2100 .* files\.invalid$/m, 'the address that the service tells people')
})

t.test('on a terminal the role has no default', { skip: !hasTerminals && 'no pty' }, async (t) => {
  const args = ['key', 'create', '--name', 'Asked']
  t.match(await onTerminal(args, [['What may the key do', 'standard\\n']]), { code: 0, out: /standard/ })
  t.match(await onTerminal(args, [['What may the key do', '\\n']]), { code: 2, out: /is no role/ })
})
