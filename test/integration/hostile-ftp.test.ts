import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { Random } from '../campaigns/random.ts'
import { makeCertificate } from '../helpers/certificate.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { bootstrapKey, startService, until } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

const commandCount = Number(process.env['ROLLCALL_HOSTILE_COMMANDS'] ?? 10_000)
const seed = Number(process.env['ROLLCALL_SEED'] ?? 7)
const sessionCount = 8
const batchSize = 30

const service = await startService(t, ['control-plane'])
const pems = path.join(service.dataFolder, 'pems')
await mkdir(pems)
const { cert, key } = await makeCertificate(pems, 'hostile')
const ftp = await service.start('ftp', { FTP_TLS_CERT: cert, FTP_TLS_KEY: key })
const url = ftp.ready.ftp!

const secret = 'what no client may see'
const outside = ['secret.csv', 'uploads/secret.csv', 'uploads/2/secret.csv']
await mkdir(path.join(service.dataFolder, 'uploads', '2'), { recursive: true })
for (const name of outside) await writeFile(path.join(service.dataFolder, name), secret)

await storedUploads(service, 2).put('secret.csv', secret)

/** Every file of the data folder but the bytes of the account's uploads. */
async function filesOutside(): Promise<string[]> {
  const own = await service.collections.uploads.distinct('blob', { organization_id: 1 })
  const entries = await readdir(service.dataFolder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => path.relative(service.dataFolder, path.join(parentPath, name)))
    .filter((file) => !own.includes(file))
    .sort()
}
const before = await filesOutside()

const traversals = [
  '../secret.csv',
  '../2/secret.csv',
  '/../2/secret.csv',
  '../../secret.csv',
  './../2/secret.csv',
  'x/../../2/secret.csv',
  '..\\2\\secret.csv',
  '/etc/passwd',
  '//etc/passwd',
  '....//secret.csv',
  '%2e%2e/secret.csv',
  '~/secret.csv',
  '../secret.csv\0.csv',
  '..%c0%af2/secret.csv',
]

t.test('no verb leads out of the directory', async (t) => {
  const session = await FtpSession.open(url)
  await session.upload('STOR own.csv', 'x')
  const refused = async (lines: string[]) => {
    session.write(lines.map((line) => `${line}\r\n`).join(''))
    for (const line of lines) {
      if (line.startsWith('RNFR own')) t.match(await session.reply(), /^350 /)
      t.match(await session.reply(), /^5\d\d /, JSON.stringify(line))
    }
  }
  for (const verb of [
    ...['STOR', 'APPE', 'RETR', 'SIZE', 'MDTM', 'MLST', 'DELE', 'RNFR', 'STAT', 'CWD', 'MKD', 'RMD'],
    ...['LIST', 'NLST', 'MLSD', 'XMKD', 'XRMD', 'XCWD'],
  ])
    await refused(traversals.map((name) => `${verb} ${name}`))
  await refused(traversals.map((name) => `RNFR own.csv\r\nRNTO ${name}`))
  t.match(await session.command('SIZE own.csv'), /^213 1$/)
  session.close()
})

/** Bytes that look like commands, more or less. */
function hostileLine(random: Random): Buffer {
  const verb = random.oneOf([
    ...[
      'USER',
      'PASS',
      'CWD',
      'CDUP',
      'PWD',
      'MKD',
      'RMD',
      'DELE',
      'RNFR',
      'RNTO',
      'SIZE',
      'MDTM',
      'MLST',
      'MLSD',
    ],
    ...[
      'LIST',
      'NLST',
      'STAT',
      'STOR',
      'APPE',
      'RETR',
      'REST',
      'TYPE',
      'MODE',
      'STRU',
      'ALLO',
      'PASV',
      'EPSV',
    ],
    ...[
      'PORT',
      'EPRT',
      'OPTS',
      'FEAT',
      'HELP',
      'SITE',
      'SYST',
      'NOOP',
      'ABOR',
      'PBSZ',
      'PROT',
      'CCC',
      'STOU',
    ],
    ...[
      'ACCT',
      'REIN',
      'SMNT',
      'LANG',
      'HOST',
      'XSHA',
      'constructor',
      '__proto__',
      'toString',
      'hasOwnProperty',
    ],
    ...['', ' ', '\t', '-', 'A'.repeat(200), 'STOR\0', '\x1b[2J', 'ST\rOR', '%s%n', '\xff\xf4\xffABOR'],
  ])
  const argument = random.oneOf<() => string>([
    () => '',
    () => random.oneOf(traversals),
    () => 'x'.repeat(random.between(0, 1_200)),
    () => random.oneOf(['-1', '0', '1e9', 'NaN', '99999999999999999999', '0x10', '4294967296', ' 1', '1 ']),
    () =>
      random.oneOf(['10,0,0,1,0,22', '127,0,0,1,0,80', '1,2', '999,0,0,1,1,1', '127,0,0,1,,', '0,0,0,0,0,0']),
    () =>
      random.oneOf([
        '|1|10.0.0.1|80|',
        '|2|::1|9|',
        '|1|127.0.0.1|',
        '|||||',
        '|1|localhost|2000|',
        '1|1|1|1',
      ]),
    () =>
      random.oneOf([
        'UTF8 ON',
        'UTF8',
        'MLST',
        `MLST ${'size;'.repeat(150)}`,
        'MLST __proto__;',
        'P',
        'C',
        'ALL',
      ]),
    () => random.oneOf(['-a', '-la *', '*', '?', '[a-z]*', '-', '--', '-R /', '$(id)', '`id`', ';id', '|id']),
    () => String.fromCharCode(...Array.from({ length: random.between(1, 60) }, () => random.between(0, 255))),
    () => `name${random.between(0, 5)}.csv`,
  ])()
  const end = random.oneOf(['\r\n', '\r\n', '\r\n', '\n', '\r\r\n', '\0\r\n'])
  const line = random.between(0, 9) === 0 ? argument : `${verb} ${argument}`
  return Buffer.from(`${line.replaceAll('\n', ' ')}${end}`, 'latin1')
}

interface Tally {
  sent: number
  replies: number
  ended: number
}

/** One client that sends its share, pipelined and in odd packets, and comes back when it is thrown out. */
async function attack(random: Random, count: number, tally: Tally): Promise<void> {
  let session: { socket: Socket; text: string } | null = null
  while (count > 0) {
    session ??= await open(random.between(0, 3) > 0)
    const size = Math.min(batchSize, count)
    count -= size
    const mark = `mark-${random.between(0, 1e9)}.csv`
    const lines = Array.from({ length: size }, () => hostileLine(random))
    // Transfers that wait for a data connection end at once with ABOR, which begins on a line of its own.
    const bytes = Buffer.concat([...lines, Buffer.from(`\r\nABOR\r\nSIZE ${mark}\r\nHELP ${mark}\r\n`)])
    for (let at = 0; at < bytes.length;) {
      const length = random.between(1, 700)
      if (!session.socket.destroyed) session.socket.write(bytes.subarray(at, at + length))
      at += length
      if (random.between(0, 4) === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const current = session
    await until(
      'the replies to a batch, or the end of the session',
      async () => current.text,
      (text) => /Unknown command MARK/.test(text) || current.socket.destroyed,
    )
    tally.sent += size
    tally.replies += current.text.match(/^\d{3} /gm)?.length ?? 0
    if (current.text.includes(service.dataFolder) || /^ +at .*:\d+:\d+/m.test(current.text))
      throw new Error(`a reply tells too much: ${current.text}`)
    if (current.text.includes(secret)) throw new Error('the secret is out')
    current.text = ''
    if (current.socket.destroyed) {
      tally.ended += 1
      session = null
    }
  }
  session?.socket.destroy()
}

async function open(isLoggedIn: boolean): Promise<{ socket: Socket; text: string }> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const session = { socket, text: '' }
  socket.setEncoding('latin1').on('data', (text: string) => (session.text += text))
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  if (isLoggedIn) socket.write(`USER api\r\nPASS ${bootstrapKey}\r\n`)
  return session
}

t.test(`${commandCount} malformed commands do no harm`, async (t) => {
  const tally: Tally = { sent: 0, replies: 0, ended: 0 }
  const shares = Array.from({ length: sessionCount }, (_, index) =>
    attack(new Random(seed + index), Math.ceil(commandCount / sessionCount), tally),
  )
  await Promise.all(shares)
  t.comment(
    `${tally.sent} commands, ${tally.replies} replies, ${tally.ended} sessions ended by the server; seed ${seed}`,
  )
  t.ok(tally.sent >= commandCount)
  t.equal(ftp.child.exitCode, null, 'the process lives')
  t.notMatch(ftp.log(), /a defect|an FTP command failed/)
  const metrics = await (await fetch(ftp.ready.metrics['ftp']!)).text()
  const resident = Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)![1])
  t.ok(resident < 300e6, `its memory is ${Math.round(resident / 1e6)} MB`)
  await until(
    'the end of all sessions',
    async () => (await fetch(ftp.ready.metrics['ftp']!)).text(),
    (text) => /^rollcall_ftp_sessions 0$/m.test(text),
  )
})

t.test('lines without an end are not kept', async (t) => {
  const session = await open(false)
  const piece = Buffer.alloc(1_000_000, 'x')
  for (let megabytes = 0; megabytes < 20 && !session.socket.destroyed; megabytes += 1)
    await new Promise((resolve) => session.socket.write(piece, resolve))
  await until(
    'the end of the session',
    async () => session.socket.destroyed,
    (isOver) => isOver,
  )
  t.pass('it is cut off')
})

t.test('then everything is where it was, and the server serves', async (t) => {
  // The bytes of a removed upload go after its record.
  const files = await until(
    'the removal of the files of removed uploads',
    filesOutside,
    ({ length }) => length <= before.length,
  )
  t.same(files, before)
  for (const name of outside)
    t.equal(await readFile(path.join(service.dataFolder, name), 'utf8'), secret, name)
  t.equal(await storedUploads(service, 2).content('secret.csv'), secret)
  for (const start of [() => FtpSession.open(url), () => FtpSession.openPrivate(url)]) {
    const session = await start()
    t.match(await session.upload('STOR after.csv', 'all is well'), /^226 /)
    t.equal((await session.download('RETR after.csv')).text, 'all is well')
    session.close()
  }
})
