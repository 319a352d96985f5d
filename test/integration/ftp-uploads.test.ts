import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { FtpSession } from '../helpers/ftp-session.ts'
import { missing } from '../helpers/missing-programs.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { bootstrapKey, startService, until } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

// Two FTP processes on one folder and one database, as on two machines; the first organization comes from the API.
// With files in the database: ftp-uploads-gridfs.test.ts.
const STAGING = process.env['ROLLCALL_TEST_STAGING'] ?? 'disk'
const service = await startService(t, ['control-plane', 'ftp'], { STAGING })
const one = service.processes.ftp!
const two = await service.start('ftp')
const both = { processes: { one, two } }
const stored = storedUploads(service)

const open = (running = one) => FtpSession.open(running.ready.ftp!)
const contentOf = (name: string) => stored.content(name)
const namesLike = async (name: string) => (await stored.entries()).filter((entry) => entry.includes(name))

/** Waits until the upload in progress, or the one that broke off, has that many bytes. */
function bytesOnDisk(name: string, bytes: number): Promise<unknown> {
  return until(
    `${bytes} bytes of ${name}`,
    async () => {
      const hidden = (await namesLike(name)).find((entry) => entry.startsWith('.'))
      return hidden === undefined ? 0 : stored.size(hidden)
    },
    (size) => size === bytes,
  )
}

const lockGone = (name: string) =>
  until(
    `the end of the lock of ${name}`,
    () => stored.isLocked(name),
    (isLocked) => !isLocked,
  )

/** Ends the lease, as a long suspension would. */
const endLease = (name: string) => stored.endLease(name)

t.test('a name that one process receives is refused by another one', async (t) => {
  const [first, second] = [await open(one), await open(two)]
  const data = await first.beginUpload('STOR shared.csv')
  data.write('email\n')
  await bytesOnDisk('shared.csv', 6)
  await second.data()
  t.match(await second.command('STOR shared.csv'), /^450 /)
  t.match(await second.command('DELE shared.csv'), /^450 /)
  t.match(await second.command('SIZE shared.csv'), /^213 6$/, 'how far it is can be asked anywhere')
  t.match(await second.upload('STOR other.csv', 'x'), /^226 /, 'other names are free')
  data.end('ann@example.com\n')
  t.match(await first.reply(), /^226 /)
  t.equal(await contentOf('shared.csv'), 'email\nann@example.com\n')
  t.match(await second.upload('STOR shared.csv', 'newer'), /^226 /)
  t.equal(await contentOf('shared.csv'), 'newer')
  t.same(await namesLike('shared.csv'), ['shared.csv'])
  await until(
    'the end of the locks, which go right after the reply',
    () => stored.isLocked('shared.csv'),
    (isLocked) => !isLocked,
  )
  first.close()
  second.close()
})

t.test('the lease of an upload is renewed until the upload ends', async (t) => {
  const session = await open()
  const data = await session.beginUpload('STOR slow.csv')
  const lease = async () => (await service.collections.uploads.findOne({ name: 'slow.csv' }))!.lease!.until
  const before = await lease()
  await until('a renewal', lease, (until) => until > before)
  data.end('done')
  t.match(await session.reply(), /^226 /)
  session.close()
})

t.test('a process that was suspended too long publishes nothing and spoils nothing', async (t) => {
  const [asleep, awake] = [await open(one), await open(two)]
  const late = await asleep.beginUpload('STOR contested.csv')
  late.write('12345')
  await bytesOnDisk('contested.csv', 5)
  one.child.kill('SIGSTOP')
  late.write('LATE')
  await endLease('contested.csv')

  t.match(await awake.command('SIZE contested.csv'), /^213 5$/)
  const data = await awake.beginUpload('APPE contested.csv')
  data.write('678')
  await bytesOnDisk('contested.csv', 8)
  one.child.kill('SIGCONT')
  late.end('LATER')
  t.match(await asleep.reply(), /^426 /)
  t.notOk((await namesLike('contested.csv')).includes('contested.csv'), 'nothing is published')
  data.end('9')
  t.match(await awake.reply(), /^226 /)
  t.equal(await contentOf('contested.csv'), '123456789')
  t.same(await namesLike('contested.csv'), ['contested.csv'], 'nothing of the other one is left')
  await lockGone('contested.csv')
  asleep.close()
  awake.close()
})

t.test('nor when the other upload has ended meanwhile', async (t) => {
  const [asleep, awake] = [await open(one), await open(two)]
  const late = await asleep.beginUpload('STOR anew.csv')
  late.write('old')
  await bytesOnDisk('anew.csv', 3)
  one.child.kill('SIGSTOP')
  await endLease('anew.csv')
  t.match(await awake.upload('STOR anew.csv', 'new'), /^226 /)
  late.end(' and more')
  one.child.kill('SIGCONT')
  t.match(await asleep.reply(), /^426 /)
  t.equal(await contentOf('anew.csv'), 'new')
  t.same(await namesLike('anew.csv'), ['anew.csv'])
  asleep.close()
  awake.close()
})

t.test('the upload of a killed process can be resumed when its lease has expired', async (t) => {
  const doomed = await service.start('ftp')
  const data = await (await open(doomed)).beginUpload('STOR orphan.csv')
  data.write('half, ')
  await bytesOnDisk('orphan.csv', 6)
  await doomed.stop('SIGKILL')
  const session = await open(two)
  await session.data()
  t.match(await session.command('APPE orphan.csv'), /^450 /, 'not at once')
  // The test waits for the lease's own end once.
  if (STAGING === 'gridfs') await endLease('orphan.csv')
  const answer = await until(
    'the end of the lease',
    async () => {
      const socket = await session.data()
      const reply = await session.command('APPE orphan.csv')
      if (reply.startsWith('150')) socket.end('whole')
      return reply
    },
    (reply) => !reply.startsWith('450'),
    120_000,
    500,
  )
  t.match(answer, /^150 /)
  t.match(await session.reply(), /^226 /)
  t.equal(await contentOf('orphan.csv'), 'half, whole')
  session.close()
})

t.test('a process that stops gives its locks back', async (t) => {
  const stopping = await service.start('ftp')
  const session = await open(stopping)
  const data = await session.beginUpload('STOR parting.csv')
  data.write('some')
  await bytesOnDisk('parting.csv', 4)
  t.equal(await stopping.stop(), 0)
  t.notOk(await stored.isLocked('parting.csv'))
  const other = await open(two)
  t.match(await other.upload('APPE parting.csv', 'thing'), /^226 /)
  t.equal(await contentOf('parting.csv'), 'something')
  other.close()
})

const interruptAndMark = Buffer.from([0xff, 0xf4, 0xff, 0xf2])
const partOfThat = Buffer.from([0xff, 0xf4, 0xf2])

for (const [what, abort] of [
  ['plain', Buffer.from('ABOR\r\n')],
  ['after Telnet’s interrupt and mark', Buffer.concat([interruptAndMark, Buffer.from('abor\r\n')])],
  [
    'after the rest of these when the urgent byte is missing',
    Buffer.concat([partOfThat, Buffer.from('ABOR\r\n')]),
  ],
  ['without a line feed, when that was the urgent byte', Buffer.from('ABOR\r')],
] as const) {
  t.test(`ABOR ends an upload, which stays unfinished: ${what}`, async (t) => {
    const session = await open()
    const data = await session.beginUpload('STOR aborted.csv')
    data.write('x'.repeat(1_000))
    session.write(abort)
    data.end()
    t.match(await session.reply(), /^426 /)
    t.match(await session.reply(), /^226 /)
    t.notOk((await namesLike('aborted.csv')).includes('aborted.csv'), 'it is not published')
    t.match(await session.command('SIZE aborted.csv'), /^213 1000$/)
    t.match(await session.command('RETR aborted.csv'), /^550 /)
    t.match(await session.upload('STOR aborted.csv', 'yy', 999), /^226 /)
    t.equal(await contentOf('aborted.csv'), `${'x'.repeat(999)}yy`)
    t.match(await session.command('DELE aborted.csv'), /^250 /)
    session.close()
  })
}

t.test('ABOR while data flow, before they do, and when nothing is transferred', async (t) => {
  const session = await open()
  t.match(await session.command('ABOR'), /^226 /)
  const data = await session.beginUpload('STOR stream.csv')
  const pump = setInterval(() => data.write(Buffer.alloc(10_000)), 1)
  t.match(await session.command('ABOR'), /^426 /)
  clearInterval(pump)
  t.match(await session.reply(), /^226 /)

  await session.command('EPSV')
  session.write('STOR never.csv\r\nABOR\r\n')
  t.match(await session.reply(), /^426 /)
  t.match(await session.reply(), /^226 /)
  t.same(await namesLike('never.csv'), [])
  t.match(await session.upload('STOR after.csv', 'all is well'), /^226 /)
  t.match(await session.command('ABOR'), /^226 /)
  t.equal(await contentOf('after.csv'), 'all is well', 'what was complete stays')
  session.close()
})

t.test('ABOR ends a download', async (t) => {
  await stored.put('large.csv', Buffer.alloc(50_000_000))
  const session = await open()
  const data = await session.data()
  t.match(await session.command('RETR large.csv'), /^150 /)
  t.match(await session.command('ABOR'), /^426 /)
  t.match(await session.reply(), /^226 /)
  data.destroy()
  t.match(await session.command('DELE large.csv'), /^250 /)
  session.close()
})

t.test('a refused transfer leaves nothing behind', async (t) => {
  const session = await open()
  await session.upload('STOR whole.csv', 'finished')
  await session.data()
  await session.command('REST 99')
  t.match(await session.command('STOR whole.csv'), /^554 /)
  t.same(await namesLike('whole.csv'), ['whole.csv'])
  t.match(await session.command('SIZE whole.csv'), /^213 8$/)
  t.match(await session.command('APPE whole.csv'), /^425 /, 'no data connection')
  t.same(await namesLike('whole.csv'), ['whole.csv'])
  const data = await session.beginUpload('APPE whole.csv')
  t.match(await session.command('ABOR'), /^426 /)
  await session.reply()
  data.destroy()
  t.same(await namesLike('whole.csv'), ['whole.csv'], 'nor one that brought nothing')
  t.match(await session.upload('APPE whole.csv', ', and more'), /^226 /, 'REST was for the refused one only')
  t.equal(await contentOf('whole.csv'), 'finished, and more')
  t.match(await session.upload('STOR whole.csv', 'again', 8), /^226 /)
  t.equal(await contentOf('whole.csv'), 'finishedagain')
  session.close()
})

/** Breaks an upload off that has brought this content. */
async function leaveUnfinished(name: string, content: string): Promise<void> {
  const session = await open()
  const data = await session.beginUpload(`STOR ${name}`)
  data.write(content)
  await bytesOnDisk(name, content.length)
  session.close()
  data.destroy()
  await lockGone(name)
}

t.test('beside a finished file the unfinished one is what SIZE, REST and APPE mean', async (t) => {
  const session = await open()
  await session.upload('STOR both.csv', 'finished content')
  await leaveUnfinished('both.csv', 'half')
  t.match(await session.command('SIZE both.csv'), /^213 4$/)
  t.equal((await session.download('RETR both.csv')).text, 'finished content')
  t.match((await session.download('LIST both.csv')).text, / 16 .* both\.csv\r\n$/)
  const names = (await session.download('NLST')).text.split('\r\n')
  t.same(
    names.filter((name) => name.includes('both')),
    ['both.csv'],
    'its hidden name is not listed',
  )
  await session.data()
  await session.command('REST 5')
  t.match(await session.command('STOR both.csv'), /^554 /, 'past the end of the unfinished one')
  t.match(await session.upload('STOR both.csv', 'f and half', 3), /^226 /)
  t.equal(await contentOf('both.csv'), 'half and half')
  session.close()
})

t.test('renaming a file onto the name of an unfinished one leaves both as they are', async (t) => {
  const session = await open()
  await leaveUnfinished('target.csv', 'half')
  await session.upload('STOR source.part', 'the whole file')
  await session.command('RNFR source.part')
  t.match(await session.command('RNTO target.csv'), /^250 /)
  t.equal(await contentOf('target.csv'), 'the whole file')
  t.match(await session.command('SIZE target.csv'), /^213 4$/)
  t.match(await session.command('DELE target.csv'), /^250 /, 'DELE means the finished one')
  t.match(await session.command('SIZE target.csv'), /^213 4$/)
  t.match(await session.command('DELE target.csv'), /^250 /, 'and the other one when it stands alone')
  t.match(await session.command('SIZE target.csv'), /^550 /)
  session.close()
})

t.test('an upload from the beginning replaces an unfinished one', async (t) => {
  const session = await open()
  await leaveUnfinished('fresh.csv', 'something long from before')
  t.match(await session.upload('STOR fresh.csv', 'short'), /^226 /)
  t.same(await namesLike('fresh.csv'), ['fresh.csv'])
  t.match(await session.command('SIZE fresh.csv'), /^213 5$/)
  t.match(await session.upload('APPE fresh.csv', 'er'), /^226 /)
  t.equal(await contentOf('fresh.csv'), 'shorter')
  session.close()
})

/** Runs a program; resolves to its exit code and what it said. */
async function run(program: string, args: string[], killAfter?: Promise<unknown>) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const closed = once(child, 'close')
  void killAfter?.then(() => child.kill('SIGKILL'))
  const [code] = (await closed) as [number | null]
  return { code, output }
}

const someOf = (name: string) =>
  until(
    `some bytes of ${name}`,
    async () => {
      const hidden = (await namesLike(name)).find((entry) => entry.startsWith('.'))
      return hidden === undefined ? 0 : stored.size(hidden)
    },
    (size) => size > 0,
  )

const big = path.join(service.dataFolder, 'big.csv')
await writeFile(big, Array.from({ length: 200_000 }, (_, row) => `${row}@example.com\n`).join(''))

t.test('curl resumes at once what a killed curl began', { skip: missing('curl') }, async (t) => {
  const user = ['-sS', '--user', `api:${bootstrapKey}`]
  for (const second of [one, two]) {
    const { name, resumed } = await repeatWhile(
      async (attempt) => {
        const name = `curl-${attempt}.csv`
        const url = (running: typeof one) => `${running.ready.ftp!}/${name}`
        const slow = [...user, '--limit-rate', '200k', '-T', big, url(one)]
        t.equal((await run('curl', slow, someOf(name))).code, null)
        // Another process waits 1.5 s for the end of an upload, which may take longer on a busy machine.
        if (second === two) await lockGone(name)
        return { name, resumed: await run('curl', [...user, '-C', '-', '-T', big, url(second)]) }
      },
      ({ resumed }) => resumed.output.includes('450'),
      both,
    )
    t.match(resumed, { code: 0, output: '' })
    t.ok((await contentOf(name)) === (await readFile(big, 'utf8')), 'the file is whole')
    t.same(await namesLike(name), [name])
  }
})

t.test('lftp resumes at once what a killed lftp began', { skip: missing('lftp') }, async (t) => {
  const { host } = new URL(one.ready.ftp!)
  const { name, resumed } = await repeatWhile(
    async (attempt) => {
      const name = `lftp-${attempt}.csv`
      const put = (bytesPerSecond: number, option: string) => [
        '--norc',
        '-c',
        `set net:max-retries 1; set net:limit-rate 0:${bytesPerSecond}; open -u api,${bootstrapKey} ftp://${host}; ` +
          `put ${option} "${big}" -o ${name}`,
      ]
      t.equal((await run('lftp', put(200_000, ''), someOf(name))).code, null)
      return { name, resumed: await run('lftp', put(0, '-c')) }
    },
    ({ resumed }) => resumed.output.includes('450'),
    both,
  )
  t.match(resumed, { code: 0 })
  t.ok((await contentOf(name)) === (await readFile(big, 'utf8')), 'the file is whole')
})

t.test('an upload ends with its control connection, though its data connection stands', async (t) => {
  const other = await open(two)
  // The other process waits 1.5 s for the end of the first upload, and refuses with 450 after that.
  const { name, reply } = await repeatWhile(
    async (attempt) => {
      const name = `halved-${attempt}.csv`
      const session = await open()
      const data = await session.beginUpload(`STOR ${name}`)
      data.write('123')
      await bytesOnDisk(name, 3)
      session.close()
      const reply = await other.upload(`APPE ${name}`, '456').catch(String)
      data.destroy()
      return { name, reply }
    },
    ({ reply }) => reply.includes('450 '),
    both,
  )
  t.match(reply, /^226 /, 'and the next session need not come again')
  t.equal(await contentOf(name), '123456')
  other.close()
})

t.test('half a file of a client that dies is none, however its connections end', async (t) => {
  const ends: Record<string, (data: Socket, control: Socket) => unknown> = {
    // The kernel closes a killed client's connections in any order, and each in its regular way.
    'data first': (data, control) => void (data.end(), control.end()),
    'control connection first': (data, control) => void (control.end(), data.end()),
    'control connection a moment later': async (data, control) => {
      data.end()
      await sleep(50)
      control.end()
    },
    'data reset': (data, control) => {
      data.resetAndDestroy()
      control.resetAndDestroy()
    },
    'data reset alone': (data) => void data.resetAndDestroy(),
  }
  for (const [how, end] of Object.entries(ends)) {
    const name = await breakOff(how, end)
    const [left, ...others] = await namesLike(name)
    t.match([left, others], [/^\.unfinished-/, []], how)
    const again = await open(two)
    t.match(await again.upload(`APPE ${name}`, ' and half'), /^226 /, how)
    t.equal(await contentOf(name), 'half and half', how)
    again.close()
  }
})

/**
 * Uploads half a file and ends its connections as a client that dies does. Resolves to the file's name. What comes after
 * 100 ms is the end of a running client, which a busy machine may delay, so it is repeated until it was in time.
 */
async function breakOff(how: string, end: (data: Socket, control: Socket) => unknown): Promise<string> {
  for (let attempt = 1; attempt <= 20; attempt += 1) {
    const name = `${how.replaceAll(' ', '-')}-${attempt}.csv`
    const session = await open()
    const data = await session.beginUpload(`STOR ${name}`)
    data.write('half')
    await bytesOnDisk(name, 4)
    const endedAt = performance.now()
    await end(data, session.control)
    const isInTime = performance.now() - endedAt <= 90
    await lockGone(name)
    session.close()
    if (isInTime) return name
  }
  throw new Error(`${how}: the connections never ended within 90 ms of each other`)
}

t.test('SIZE counts what a broken upload sent last', async (t) => {
  const [session, other] = [await open(one), await open(two)]
  // SIZE waits 1.5 s for the end of the upload.
  const { size } = await repeatWhile(
    async (attempt) => {
      const name = `last-${attempt}.csv`
      const data = await session.beginUpload(`STOR ${name}`)
      data.write('123')
      await bytesOnDisk(name, 3)
      const askedAt = performance.now()
      other.write(`SIZE ${name}\r\n`)
      data.write('456')
      t.match(await session.command('ABOR'), /^426 /)
      const tookMs = performance.now() - askedAt
      t.match(await session.reply(), /^226 /)
      return { size: await other.reply(), tookMs }
    },
    ({ tookMs }) => tookMs > 1_400,
  )
  t.match(size, /^213 6$/)
  session.close()
  other.close()
})

t.test('FEAT says what there is', async (t) => {
  const session = await open()
  const lines = (await session.command('FEAT')).split('\r\n').slice(1, -1)
  const mlst = ' MLST type*;size*;modify*;perm*;'
  const names = [' CLNT', ' EPRT', ' EPSV', ' HOST', ' MDTM', ' MFMT', mlst, ' REST STREAM', ' SIZE', ' TVFS']
  t.same(lines, [...names, ' UTF8'])
  for (const command of ['AUTH TLS', 'PBSZ 0', 'PROT P', 'CCC', 'STOU', 'STOU x.csv'])
    t.match(await session.command(command), /^502 /, command)
  t.match(await session.command('OPTS UTF8 ON'), /^200 /)
  t.match(await session.command('OPTS UTF8 OFF'), /^501 /)
  t.match(await session.command('OPTS'), /^501 /)
  await session.upload('STOR dated.csv', 'x')
  t.match(await session.command('MDTM dated.csv'), /^213 \d{14}$/)
  session.close()
})

t.test('what clients say of themselves and of modes is taken', async (t) => {
  const early = await FtpSession.connect(one.ready.ftp!)
  t.match(await early.command('CLNT NcFTP 3.2.6'), /^200 /)
  t.match(await early.command('HOST ftp.example.com'), /^220 /)
  t.match(await early.command('HOST'), /^501 /)
  t.match(await early.login(), /^230 /)
  t.match(await early.command('HOST ftp.example.com'), /^503 /, 'RFC 7151: before the login')
  t.match(await early.command('CLNT'), /^200 /)
  early.close()
  const session = await open()
  await session.upload('STOR mode.csv', 'x')
  for (const command of [
    'SITE CHMOD 644 mode.csv',
    'site chmod 0600 a b.csv',
    'SITE UMASK',
    'SITE UMASK 022',
  ])
    t.match(await session.command(command), /^200 /, command)
  t.match(await session.command('SITE HELP'), /^214-[\s\S]*CHMOD[\s\S]*UMASK[\s\S]*UTIME[\s\S]*\r\n214 /)
  for (const command of ['SITE', 'SITE CHMOD', 'SITE CHMOD 644', 'SITE UTIME mode.csv'])
    t.match(await session.command(command), /^501 /, command)
  t.match(await session.command('SITE EXEC ls'), /^504 /)
  t.match(await session.command('SIZE mode.csv'), /^213 1$/)
  session.close()
})

t.test('clients set the times of files, which stay and are shown by every door', async (t) => {
  const [session, other] = [await open(one), await open(two)]
  await session.upload('STOR timed one.csv', '12345')
  await session.upload('STOR 20200101000000 x.csv', 'a name like an argument')
  const shown = async (name: string) => {
    const reply = await other.command(`MDTM ${name}`)
    const [, time = reply] = /^213 (\d{14})$/.exec(reply) ?? []
    const line = `type=file;size=5;modify=${time};perm=adfrw; ${name}`
    t.equal((await other.command(`MLST ${name}`)).split('\r\n')[1], ` ${line}`)
    t.ok((await other.download('MLSD')).text.split('\r\n').includes(line), line)
    const uploads = await service.get<{ filename: string; modified_at: string }[]>('/uploads')
    const { modified_at } = uploads.find(({ filename }) => filename === name)!
    t.equal(modified_at.replace(/[-:TZ]/g, ''), time)
    return time
  }
  t.match(await shown('timed one.csv'), /^\d{14}$/, 'in whole seconds')
  for (const [command, reply, time] of [
    ['MFMT 20211126103015 timed one.csv', /^213 Modify=20211126103015; timed one\.csv$/, '20211126103015'],
    ['MFMT 20201126103015.987 timed one.csv', /^213 Modify=20201126103015; /, '20201126103015'],
    ['MDTM 20190228235959 timed one.csv', /^213 20190228235959$/, '20190228235959'],
    ['SITE UTIME 201802282359 timed one.csv', /^200 /, '20180228235900'],
    ['SITE UTIME 20180228235958 timed one.csv', /^200 /, '20180228235958'],
    ['SITE UTIME timed one.csv 20170101000000 20160229010203 20150101000000 UTC', /^200 /, '20160229010203'],
    ['MFMT 20300101000000 timed one.csv', /^213 /, '20300101000000'],
  ] as const) {
    t.match(await session.command(command), reply, command)
    t.equal(await shown('timed one.csv'), time, command)
  }
  for (const command of [
    'MFMT',
    'MFMT timed one.csv',
    'MFMT 20210229000000 timed one.csv',
    'MFMT 20210101240000 timed one.csv',
    'MFMT 2021010100000 timed one.csv',
    'MFMT 19691231235959 timed one.csv',
  ])
    t.match(await session.command(command), /^501 /, command)
  for (const command of [
    'MFMT 20210101000000 nothing.csv',
    'MDTM 20210101000000 nothing.csv',
    'MFMT 20210101000000 /',
  ])
    t.match(await session.command(command), /^550 /, command)
  t.match(
    await session.command('MDTM 20200101000000 x.csv'),
    /^213 20(?!200101000000)/,
    'a file of that name',
  )
  t.equal(await shown('timed one.csv'), '20300101000000')

  t.match(await session.command('RNFR timed one.csv'), /^350 /)
  t.match(await session.command('RNTO moved.csv'), /^250 /)
  t.equal(await shown('moved.csv'), '20300101000000', 'the time moves with the file')
  t.match((await session.download('LIST moved.csv')).text, / 5 Jan 01 .*moved\.csv/)
  t.match(await session.upload('STOR moved.csv', '54321'), /^226 /)
  t.not(await shown('moved.csv'), '20300101000000', 'an upload has its own')
  t.equal(await contentOf('moved.csv'), '54321')
  session.close()
  other.close()
})

t.test('file names are accepted unchanged, or refused', async (t) => {
  const session = await open()
  for (const name of ['"q".csv', 'a -x b.csv', '-a', 'two  blanks.csv', 'naïve 😀.csv'])
    t.match(await session.upload(`STOR ${name}`, name), /^226 /, name)
  const listed = (await session.download('NLST')).text.split('\r\n')
  for (const name of ['"q".csv', 'a -x b.csv', '-a', 'two  blanks.csv', 'naïve 😀.csv']) {
    t.equal(await contentOf(name), name)
    t.ok(listed.includes(name), name)
    t.match(await session.command(`SIZE ${name}`), /^213 /)
    t.match(await session.command(`DELE ${name}`), /^250 /)
  }
  session.write(Buffer.from('SIZE na\xefve.csv\r\n', 'latin1'))
  t.match(await session.reply(), /^501 /, 'not UTF-8')
  session.write(Buffer.from('SIZE na\xc3', 'latin1'))
  await sleep(50)
  session.write(Buffer.from('\xafve.csv\r\n', 'latin1'))
  t.match(await session.reply(), /^550 naïve\.csv: no such file$/, 'a character in two packets')
  session.close()
})

t.test('a name with a dot in front is a name like others', async (t) => {
  const session = await open()
  const listed = async (command: string) => (await session.download(command)).text.split('\r\n')
  await session.upload('STOR dotted.csv', 'old')
  for (const temporary of ['.in.dotted.csv', '.dotted.csv', '..dotted.csv', '.unfinished-dotted.csv']) {
    t.match(await session.upload(`STOR ${temporary}`, temporary), /^226 /, temporary)
    t.ok((await listed('NLST')).includes(temporary))
    t.ok((await listed('NLST .*')).includes(temporary))
    t.equal((await session.download(`RETR ${temporary}`)).text, temporary)
    t.match(await session.command(`RNFR ${temporary}`), /^350 /)
    t.match(await session.command('RNTO dotted.csv'), /^250 /)
    t.equal(await contentOf('dotted.csv'), temporary)
    t.notOk((await listed('NLST')).includes(temporary))
  }
  const data = await session.beginUpload('STOR .begun.csv')
  data.write('123')
  await until(
    'the first bytes',
    async () => (await namesLike('.begun.csv'))[0] ?? '',
    (name) => name.startsWith('.unfinished-'),
  )
  const other = await open(two)
  t.notOk((await other.download('NLST')).text.includes('begun'), 'an upload in progress is not listed')
  data.end('45')
  t.match(await session.reply(), /^226 /)
  t.equal(await contentOf('.begun.csv'), '12345')
  session.close()
  other.close()
})

t.test('a name is one name, composed and decomposed', async (t) => {
  const session = await open()
  const [composed, decomposed] = ['Zoé-März.csv'.normalize('NFC'), 'Zoé-März.csv'.normalize('NFD')]
  t.not(composed, decomposed)
  t.match(await session.upload(`STOR ${decomposed}`, 'from a Mac'), /^226 /)
  t.match(await session.command(`SIZE ${composed}`), /^213 10$/)
  t.match(await session.upload(`STOR ${composed}`, 'corrected'), /^226 /)
  for (const pattern of ['', ` ${decomposed}`, ` ${decomposed.slice(0, 5)}*`, ` ${composed.slice(0, 4)}*`])
    t.same(
      (await session.download(`NLST${pattern}`)).text.split('\r\n').filter((name) => name.startsWith('Zo')),
      [composed],
      pattern,
    )
  t.equal((await session.download(`RETR ${decomposed}`)).text, 'corrected')
  t.match(await session.command(`RNFR ${decomposed}`), /^350 /)
  t.match(await session.command(`RNTO 2-${decomposed}`), /^250 /)
  t.equal(await contentOf(`2-${composed}`), 'corrected')
  t.match(await session.command(`DELE 2-${decomposed}`), /^250 /)
  const long = 'é'.repeat(100)
  t.match(await session.upload(`STOR ${long.normalize('NFD')}`, 'x'), /^226 /, '200 bytes when composed')
  t.match(await session.command(`DELE ${long}`), /^250 /)

  session.close()
})

t.test('lists of what is not there, and downloads from the middle', async (t) => {
  const session = await open()
  for (const line of [
    'LIST ../',
    'LIST ../2',
    'LIST nothing.csv',
    'NLST ../*.csv',
    'RETR *.csv',
    'RETR ../x',
    'RETR nothing.csv',
  ])
    t.match((await session.download(line)).last, /^550 /, line)
  await session.upload('STOR middle.csv', '0123456789')
  t.match((await session.download('LIST -la')).text, /middle\.csv/)
  await session.command('REST 4')
  t.match(await session.download('RETR middle.csv'), { text: '456789', last: /^226 / })
  await session.command('REST 11')
  t.match((await session.download('RETR middle.csv')).last, /^554 /)
  t.equal((await session.download('RETR middle.csv')).text, '0123456789')
  session.close()
})

t.test('LIST and NLST expand patterns of names', async (t) => {
  const session = await open()
  for (const name of ['glob-a1.csv', 'glob-a2.csv', 'glob-b1.txt', 'glob-[a]1.csv'])
    await session.upload(`STOR ${name}`, 'x')
  const named = async (pattern: string) => {
    const { text, last } = await session.download(`NLST ${pattern}`)
    t.match(last, /^226 /, pattern)
    return text.split('\r\n').filter(Boolean).sort()
  }
  t.same(await named('glob-*.csv'), ['glob-[a]1.csv', 'glob-a1.csv', 'glob-a2.csv'])
  t.same(await named('./glob-?1.*'), ['glob-a1.csv', 'glob-b1.txt'])
  t.same(await named('glob-[!b]?.csv'), ['glob-a1.csv', 'glob-a2.csv'])
  t.same(await named('glob-[a]1.csv'), ['glob-[a]1.csv'], 'a file of that very name')
  t.same(await named('*.nothing'), [])
  t.match(
    (await session.download(`NLST ${'*'.repeat(201)}`)).last,
    /^501 the pattern has 201 characters; at most 200 are allowed/,
  )
  t.match((await session.download('LIST -l glob-b*')).text, /^-\S+ .* glob-b1\.txt\r\n$/)
  session.close()
})
