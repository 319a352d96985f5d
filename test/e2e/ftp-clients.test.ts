import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { Client } from 'basic-ftp'
import t from 'tap'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { makeCertificate } from '../helpers/certificate.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { missing } from '../helpers/missing-programs.ts'
import { bootstrapKey, startService, until } from '../helpers/service.ts'

// The clients that partners have, against the process, in the clear and in TLS, one and many of them. What arrives is
// compared by its SHA-256.
const service = await startService(t, ['control-plane'])
const work = path.join(service.dataFolder, 'client files')
await mkdir(work)
const { cert, key } = await makeCertificate(work, 'clients')
// No other program is given this port while the server starts again.
const port = String(await freePort())
const settings = { FTP_TLS_CERT: cert, FTP_TLS_KEY: key, FTPS_PORT: '0', FTP_PORT: port }
const ftp = await service.start('ftp', settings)
const ready = ftp.ready as unknown as { ftp: string; ftps: string }
const { hostname } = new URL(ready.ftp)
const account = { host: hostname, port: Number(port), user: 'api', password: bootstrapKey }

const big = path.join(work, 'big.csv')
const bigContent = randomBytes(1_500_000)
await writeFile(big, bigContent)

const hashOf = (content: Uint8Array) => createHash('sha256').update(content).digest('hex')
const bigHash = hashOf(bigContent)

/** Runs a program; resolves to its exit code and what it said. `killed` ends it by SIGKILL. */
async function run(
  program: string,
  args: string[],
  options: { input?: string; killed?: Promise<unknown> } = {},
) {
  // Names of files are UTF-8, whatever the locale of who runs the tests.
  const env = { ...process.env, LC_ALL: 'C.UTF-8' }
  const child = spawn(program, args, { cwd: work, env, stdio: ['pipe', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stdin.on('error', () => undefined).end(options.input ?? '')
  const closed = once(child, 'close')
  void options.killed?.then(() => child.kill('SIGKILL'))
  const [code] = (await closed) as [number | null]
  return { code, output }
}

/** The SHA-256 of a file as the server hands it out. */
async function hashAtServer(name: string, password = bootstrapKey): Promise<string> {
  const client = new Client()
  await client.access({ ...account, password })
  const content = await download(client, name)
  client.close()
  return hashOf(content)
}

async function download(client: Client, name: string): Promise<Buffer> {
  const pieces: Buffer[] = []
  const into = new Writable({
    write(chunk: Buffer, _encoding, done) {
      pieces.push(chunk)
      done()
    },
  })
  await client.downloadTo(into, name)
  return Buffer.concat(pieces)
}

/** Resolves when an unfinished upload has some bytes. */
async function begun(name: string): Promise<void> {
  const session = await FtpSession.open(ready.ftp)
  await until(
    `some bytes of ${name}`,
    () => session.command(`SIZE ${name}`),
    (reply) => /^213 [1-9]/.test(reply),
  )
  session.close()
}

/** Waits until the server has released the upload of a killed client. */
const untilReleased = (name: string) =>
  until(
    `the release of ${name}`,
    () => service.collections.uploads.countDocuments({ name, lease: { $ne: null } }),
    (count) => count === 0,
  )

const isThere = async (name: string) => {
  const session = await FtpSession.open(ready.ftp)
  const { text } = await session.download('NLST')
  session.close()
  return text.split('\r\n').includes(name)
}

const curlModes: Record<string, { url: string; args: string[] }> = {
  plain: { url: ready.ftp, args: [] },
  'explicit TLS': { url: ready.ftp, args: ['--ssl-reqd', '--insecure'] },
  'implicit TLS': { url: ready.ftps, args: ['--insecure'] },
}
for (const [mode, { url, args }] of Object.entries(curlModes))
  t.test(`curl uploads, resumes and lists: ${mode}`, { skip: missing('curl') }, async (t) => {
    const user = ['-sS', '--user', `api:${bootstrapKey}`, ...args]
    const name = `curl ${mode}.csv`
    const target = `${url}/${encodeURIComponent(name)}`
    t.match(await run('curl', [...user, '-T', big, target]), { code: 0, output: '' })
    t.equal(await hashAtServer(name), bigHash)
    t.match(await run('curl', [...user, '-o', 'back.csv', target]), { code: 0 })
    t.equal(hashOf(await readFile(path.join(work, 'back.csv'))), bigHash)
    t.match(await run('curl', [...user, '--list-only', `${url}/`]), { code: 0, output: new RegExp(name) })
    t.match(await run('curl', [...user, '--head', target]), { code: 0, output: /Content-Length: 1500000/ })
    // This curl sends data in the clear in active mode under TLS, so lftp tests that.
    if (mode === 'plain') {
      const active = [...user, '--ftp-port', '-', '-T', big, `${url}/active.csv`]
      t.match(await run('curl', active), { code: 0 }, 'in active mode')
      t.equal(await hashAtServer('active.csv'), bigHash)
    }

    const slow = [...user, '--limit-rate', '50k', '-T', big, `${url}/killed.csv`]
    t.equal((await run('curl', slow, { killed: begun('killed.csv') })).code, null, 'killed in mid-upload')
    t.equal(await isThere('killed.csv'), false)
    await untilReleased('killed.csv')
    t.match(
      await run('curl', [...user, '-C', '-', '-T', big, `${url}/killed.csv`]),
      { code: 0 },
      'and resumed',
    )
    t.equal(await hashAtServer('killed.csv'), bigHash)
    await run('curl', [...user, '-Q', 'DELE killed.csv', '--list-only', `${url}/`])
    t.equal(await isThere('killed.csv'), false)
  })

// A curl before 8.9 can't upload several files in TLS 1.3: it uses a ticket once and reads no new one while it uploads.
const tlsVersions = {
  'either TLS version': { up: [], down: [] },
  'TLS 1.2': { up: ['--tls-max', '1.2'], down: ['--tls-max', '1.2'] },
  'TLS 1.3 for downloads': { up: [], down: ['--tlsv1.3'] },
}
for (const [version, { up, down }] of Object.entries(tlsVersions))
  t.test(`curl moves several files in one session: ${version}`, { skip: missing('curl') }, async (t) => {
    const { id } = await service.post('/organizations', { organization: { name: version } })
    const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'curl' } })
    const folder = path.join(work, `curl ${version}`)
    await mkdir(folder)
    const sizes = [20, 1_500_000, 0, 40_000, 1_500_000, 20, 1_500_000, 20]
    const names = sizes.map((size, index) => `${index}-of-${size}.csv`)
    const contents = sizes.map((size) => randomBytes(size))
    for (const [index, name] of names.entries()) await writeFile(path.join(folder, name), contents[index]!)
    const curl = ['-sS', '--user', `api:${key}`, '--ssl-reqd', '--insecure']
    const list = `{${names.join(',')}}`
    const sent = await run('curl', [...curl, ...up, '-T', `${folder}/${list}`, `${ready.ftp}/`])
    t.match(sent, { code: 0, output: '' })
    for (const [index, name] of names.entries())
      t.equal(await hashAtServer(name, key), hashOf(contents[index]!), name)
    const back = await run('curl', [...curl, ...down, '-o', `${folder}/back-#1`, `${ready.ftp}/${list}`])
    t.match(back, { code: 0, output: '' })
    for (const [index, name] of names.entries())
      t.equal(hashOf(await readFile(path.join(folder, `back-${name}`))), hashOf(contents[index]!), name)
  })

const lftpModes: Record<string, { url: string; set: string }> = {
  plain: { url: ready.ftp, set: 'set ftp:ssl-allow false;' },
  'explicit TLS': { url: ready.ftp, set: 'set ftp:ssl-force true; set ftp:ssl-protect-data true;' },
  'implicit TLS': { url: ready.ftps, set: '' },
}
for (const [mode, { url, set }] of Object.entries(lftpModes))
  t.test(`lftp uploads and lists: ${mode}`, { skip: missing('lftp') }, async (t) => {
    const lftp = (commands: string, killed?: Promise<unknown>) =>
      run(
        'lftp',
        [
          '--norc',
          '-c',
          `set net:max-retries 1; set net:timeout 30; set ssl:verify-certificate no; ${set} ` +
            `open -u api,${bootstrapKey} ${url}; ${commands}`,
        ],
        killed === undefined ? {} : { killed },
      )
    const prefix = mode.replace(' ', '-')
    const [up, down] = [path.join(work, `up-${prefix}`), path.join(work, `down-${prefix}`)]
    await mkdir(up)
    const files = new Map(
      ['one.csv', 'two words.csv', 'drei-äöü.csv', 'empty.csv'].map((name) => [
        `${prefix} ${name}`,
        name === 'empty.csv' ? Buffer.alloc(0) : randomBytes(40_000),
      ]),
    )
    for (const [name, content] of files) await writeFile(path.join(up, name), content)
    t.match(await lftp(`mirror -R --parallel=3 "${up}" .`), { code: 0 })
    t.match(await lftp(`mirror --include "^${prefix} " . "${down}"`), { code: 0 })
    for (const [name, content] of files) {
      t.equal(await hashAtServer(name), hashOf(content), name)
      t.equal(hashOf(await readFile(path.join(down, name))), hashOf(content), `${name}, back`)
    }
    const slow = lftp(`set net:limit-rate 0:50000; put "${big}" -o ${prefix}.csv`, begun(`${prefix}.csv`))
    t.equal((await slow).code, null, 'killed in mid-upload')
    t.equal(await isThere(`${prefix}.csv`), false)
    await untilReleased(`${prefix}.csv`)
    t.match(await lftp(`put -c "${big}" -o ${prefix}.csv`), { code: 0 }, 'and resumed')
    t.equal(await hashAtServer(`${prefix}.csv`), bigHash)
    t.match(await lftp(`set ftp:passive-mode off; put "${big}" -o active-${prefix}.csv`), { code: 0 })
    t.equal(await hashAtServer(`active-${prefix}.csv`), bigHash, 'in active mode')
    t.match(await lftp(`mv ${prefix}.csv moved-${prefix}.csv; cls -l; rm moved-${prefix}.csv`), {
      code: 0,
      output: new RegExp(`1500000 .* moved-${prefix}\\.csv`),
    })
  })

t.test('ncftpput and ncftpget move files', { skip: missing('ncftpput') }, async (t) => {
  const asUser = ['-u', 'api', '-p', bootstrapKey, '-P', port]
  t.match(await run('ncftpput', [...asUser, '-C', hostname, big, 'ncftp.csv']), { code: 0 })
  t.equal(await hashAtServer('ncftp.csv'), bigHash)
  t.match(await run('ncftpput', [...asUser, '-E', '-C', hostname, big, 'ncftp-active.csv']), { code: 0 })
  t.equal(await hashAtServer('ncftp-active.csv'), bigHash)
  t.match(await run('ncftpget', [...asUser, '-C', hostname, 'ncftp.csv', 'ncftp-back.csv']), { code: 0 })
  t.equal(hashOf(await readFile(path.join(work, 'ncftp-back.csv'))), bigHash)
})

t.test('tnftp moves files', { skip: missing('tnftp') }, async (t) => {
  const input = [
    `open ${hostname} ${port}`,
    `user api ${bootstrapKey}`,
    'binary',
    'put big.csv tnftp.csv',
    'rename tnftp.csv tnftp-renamed.csv',
    'size tnftp-renamed.csv',
    'modtime tnftp-renamed.csv',
    'ls',
    'get tnftp-renamed.csv tnftp-back.csv',
    'passive off',
    'put big.csv tnftp-active.csv',
    'delete tnftp-renamed.csv',
    'quit',
  ]
  const { output } = await run('tnftp', ['-n', '-v'], { input: `${input.join('\n')}\n` })
  t.match(output, /1500000/)
  t.equal(hashOf(await readFile(path.join(work, 'tnftp-back.csv'))), bigHash)
  t.equal(await hashAtServer('tnftp-active.csv'), bigHash)
  t.equal(await isThere('tnftp-renamed.csv'), false)
})

for (const secure of [false, true, 'implicit'] as const)
  t.test(`basic-ftp moves files, secure: ${secure}`, async (t) => {
    const client = new Client()
    const ports = { host: hostname, port: Number(secure === 'implicit' ? new URL(ready.ftps).port : port) }
    const secureOptions = { rejectUnauthorized: false }
    await client.access({ ...ports, user: 'api', password: bootstrapKey, secure, secureOptions })
    const name = `basic ${secure} ö.csv`
    await client.uploadFrom(Readable.from([bigContent.subarray(0, 1_000_000)]), name)
    await client.appendFrom(Readable.from([bigContent.subarray(1_000_000)]), name)
    t.equal(await client.size(name), bigContent.length)
    t.ok(Math.abs((await client.lastMod(name)).getTime() - Date.now()) < 600_000)
    const listed = (await client.list()).find((file) => file.name === name)
    t.match(listed, { size: bigContent.length, isFile: true })
    t.equal(listed!.modifiedAt?.getTime(), (await client.lastMod(name)).getTime(), 'times are exact')
    await client.rename(name, `renamed ${name}`)
    t.equal(await hashAtServer(`renamed ${name}`), bigHash)
    await client.remove(`renamed ${name}`)
    t.notOk((await client.list()).some((file) => file.name.includes(name)))
    client.close()
  })

type Command = [program: string, ...args: string[]]

/** Commands that bring the files of a folder to the root, as the program does by itself; each must end with 0. */
type Mirror = (mirrored: { folder: string; files: string[]; key: string }) => Command[]

const script = (name: string) => fileURLToPath(new URL(`../helpers/ftp-clients/${name}`, import.meta.url))
const lftpWith =
  (command: string): Mirror =>
  ({ folder, key }) => [
    [
      'lftp',
      '--norc',
      '-c',
      `set ssl:verify-certificate no; open -u api,${key} ${ready.ftp}; lcd "${folder}"; ${command}`,
    ],
  ]
const rcloneWith =
  (command: string, options: string): Mirror =>
  ({ folder, key }) => {
    const remote = `:ftp,host=${hostname},port=${port},user=api,${options}:`
    const obscured = `RCLONE_FTP_PASS=$(rclone obscure ${key}) exec rclone`
    return [command, 'check', 'check --download'].map((verb) => [
      'sh',
      '-c',
      `${obscured} ${verb} "${folder}" ${remote}`,
    ])
  }
const ncftpputWith =
  (...options: string[]): Mirror =>
  ({ files, key }) => [
    ['ncftpput', '-u', 'api', '-p', key, '-P', port, '-V', ...options, hostname, '.', ...files],
  ]
const curlWith =
  (...options: string[]): Mirror =>
  ({ files, key }) => [
    ['curl', '-sS', '--user', `api:${key}`, ...options, '-T', `{${files.join(',')}}`, `${ready.ftp}/`],
  ]
/** NiFi uploads under a name with a dot in front, and renames. */
const dotRename =
  (...options: string[]): Mirror =>
  ({ files, key }) =>
    files.map((file) => {
      const name = path.basename(file)
      const rename = ['-Q', `-RNFR .${name}`, '-Q', `-RNTO ${name}`]
      return [
        'curl',
        '-sS',
        '--user',
        `api:${key}`,
        ...options,
        ...rename,
        '-T',
        file,
        `${ready.ftp}/.${encodeURIComponent(name)}`,
      ]
    })
const scripted =
  (mode: string, ...command: Command): Mirror =>
  ({ folder, key }) => [[...command, hostname, port, key, folder, mode]]

const commonsNet = process.env['COMMONS_NET_JAR'] ?? '/usr/share/java/commons-net.jar'
const javaWith = (mode: string) => scripted(mode, 'java', '-cp', commonsNet, script('Sync.java'))
const noJava =
  missing('java', 'javac') || !existsSync(commonsNet)
    ? 'no Java with Apache Commons Net, whose file COMMONS_NET_JAR names'
    : false

const mirrors: Record<string, { skip: string | false; mirror: Mirror }> = {
  'lftp mirror -R': { skip: missing('lftp'), mirror: lftpWith('mirror -R . .') },
  'lftp mirror -R -v': { skip: missing('lftp'), mirror: lftpWith('mirror -R -v . .') },
  'lftp with temporary names': {
    skip: missing('lftp'),
    mirror: lftpWith('set xfer:use-temp-file yes; mirror -R -v . .; mput *'),
  },
  'lftp mirror in clear text': {
    skip: missing('lftp'),
    mirror: lftpWith('set ftp:ssl-allow no; mirror -R -v . .'),
  },
  'rclone copy': { skip: missing('rclone'), mirror: rcloneWith('copy', 'tls=false') },
  'rclone sync': { skip: missing('rclone'), mirror: rcloneWith('sync', 'tls=false') },
  'rclone sync in TLS': {
    skip: missing('rclone'),
    mirror: rcloneWith('sync', 'explicit_tls=true,no_check_certificate=true,concurrency=1'),
  },
  ncftpput: { skip: missing('ncftpput'), mirror: ncftpputWith() },
  'ncftpput with temporary names': {
    skip: missing('ncftpput'),
    mirror: ncftpputWith('-T', '.in.', '-S', '.tmp'),
  },
  curl: { skip: missing('curl'), mirror: curlWith() },
  'curl in TLS': { skip: missing('curl'), mirror: dotRename('--ssl-reqd', '--insecure') },
  'curl with a rename': { skip: missing('curl'), mirror: dotRename() },
  'ftplib of Python': { skip: missing('python3'), mirror: scripted('', 'python3', script('sync.py')) },
  'ftplib of Python in TLS': {
    skip: missing('python3'),
    mirror: scripted('TLS', 'python3', script('sync.py')),
  },
  'Net::FTP of Perl': { skip: missing('perl'), mirror: scripted('', 'perl', script('sync.pl')) },
  PHP: { skip: missing('php'), mirror: scripted('', 'php', script('sync.php')) },
  'PHP in TLS': { skip: missing('php'), mirror: scripted('TLS', 'php', script('sync.php')) },
  'Commons Net': { skip: noJava, mirror: javaWith('passive') },
  'Commons Net in active mode': { skip: noJava, mirror: javaWith('active') },
}
const versions = [
  { content: 'email,name\na@example.com,Ann\n', time: '2026-11-25T10:00:00Z' },
  { content: 'email,name\na@example.com,Bob\n', time: '2026-11-26T10:00:00Z' },
  // As of a file that was restored. lftp leaves a file alone that is newer at the server.
  { content: 'email,name\na@example.com,Cid\n', time: '2026-11-20T10:00:00Z', isOlder: true },
]
for (const [client, { skip, mirror }] of Object.entries(mirrors))
  t.test(`a changed file of equal size is sent again: ${client}`, { skip }, async (t) => {
    const { id } = await service.post('/organizations', { organization: { name: client } })
    const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'partner' } })
    const folder = path.join(work, client.replaceAll(/\W/g, '-'))
    await mkdir(folder)
    const files = ['one.csv', 'zwei-äöü.csv'].map((name) => path.join(folder, name))
    for (const { content, time } of versions.filter(
      ({ isOlder }) => !isOlder || !client.startsWith('lftp mirror'),
    )) {
      for (const file of files) {
        await writeFile(file, content)
        await utimes(file, new Date(time), new Date(time))
      }
      for (const [program, ...args] of mirror({ folder, files, key })) {
        const { code, output } = await run(program, args)
        t.equal(code, 0, `${content}${output}`)
      }
      for (const file of files)
        t.equal(await hashAtServer(path.basename(file), key), hashOf(Buffer.from(content)))
    }
    const session = await FtpSession.open(ready.ftp, key)
    t.same((await session.download('NLST')).text, files.map((file) => `${path.basename(file)}\r\n`).join(''))
    session.close()
  })

t.test('a hundred concurrent sessions are served', async (t) => {
  const upload = async (index: number): Promise<boolean> => {
    const content = randomBytes(20_000 + index)
    // Patient: a hundred of them share a slow machine.
    const client = new Client(120_000)
    await client.access({ ...account, secure: index % 2 === 1, secureOptions: { rejectUnauthorized: false } })
    await client.uploadFrom(Readable.from([content]), `parallel-${index}.csv`)
    const back = await download(client, `parallel-${index}.csv`)
    client.close()
    return hashOf(back) === hashOf(content)
  }
  const results = await Promise.all(Array.from({ length: 100 }, (_, index) => upload(index)))
  t.equal(results.filter(Boolean).length, 100)
})

t.test('an upload resumes after the server was killed', { skip: missing('curl') }, async (t) => {
  const tls = ['-sS', '--user', `api:${bootstrapKey}`, '--ssl-reqd', '--insecure', '-T', big]
  const target = `${ready.ftp}/survivor.csv`
  const slow = run('curl', [...tls, '--limit-rate', '50k', target])
  await begun('survivor.csv')
  await ftp.stop('SIGKILL')
  t.not((await slow).code, 0)
  await service.start('ftp', settings)
  t.equal(await isThere('survivor.csv'), false)
  // The lease of the killed process ends now.
  await service.collections.uploads.updateMany(
    { state: 'unfinished' },
    { $set: { 'lease.until': new Date(0) } },
  )
  t.match(await run('curl', [...tls, '-C', '-', target]), { code: 0 })
  t.equal(await hashAtServer('survivor.csv'), bigHash)
})
