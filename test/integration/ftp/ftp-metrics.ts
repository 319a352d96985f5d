import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ftpFronts } from '../../helpers/ftp-front.ts'
import { FtpSession } from '../../helpers/ftp-session.ts'
import { metricValue } from '../../helpers/metric-value.ts'
import { until } from '../../helpers/service.ts'
import { service } from './service.ts'

/** Values of the FTP server's metrics after work of a known number, size and duration, on servers of their own. */

const { start } = await ftpFronts(t, service)
const transfer = (kind: string) => `protocol="ftp",kind="${kind}"`
const transfers = (kind: string, result: string) =>
  `rollcall_ftp_transfers_total{${transfer(kind)},result="${result}"}`
const transferred = (direction: string) => `rollcall_ftp_bytes_total{protocol="ftp",direction="${direction}"}`
const login = (result: string) => `rollcall_ftp_logins_total{result="${result}"}`
const ended = (reason: string) => `rollcall_ftp_disconnections_total{reason="${reason}"}`

async function startCounted(options: Parameters<typeof start>[1] = {}) {
  const front = await start(t, options)
  const value = async (series: string) => metricValue(await front.registry.metrics(), series)
  return {
    ...front,
    value,
    reaches: (series: string, expected: number) =>
      until(
        `${series} ${expected}`,
        () => value(series),
        (found) => found === expected,
      ),
  }
}

t.test('durations of transfers are in seconds, by kind', async (t) => {
  const { url, value } = await startCounted()
  const session = await FtpSession.open(url)
  const sum = (kind: string) => value(`rollcall_ftp_transfer_duration_seconds_sum{${transfer(kind)}}`)
  const count = (kind: string) => value(`rollcall_ftp_transfer_duration_seconds_count{${transfer(kind)}}`)
  const pauseMs = 1_500
  const isInSeconds = async (kind: string, startedAt: number) => {
    const [seconds, maxSeconds] = [await sum(kind), (performance.now() - startedAt) / 1_000]
    t.ok(seconds >= 1.4 && seconds <= maxSeconds, `${kind}: ${seconds} s, not from 1.4 s to ${maxSeconds} s`)
  }

  const uploadAt = performance.now()
  const upload = await session.beginUpload('STOR lasting.csv')
  upload.write('email\n')
  t.equal(await value(`rollcall_ftp_transfers{${transfer('in')}}`), 1)
  await sleep(pauseMs)
  upload.end('ann@example.com\n')
  t.match(await session.reply(), /^226 /)
  await isInSeconds('in', uploadAt)
  t.equal(await value(`rollcall_ftp_transfers{${transfer('in')}}`), 0)

  // Larger than what sockets hold, so the download lasts until the client has read it.
  t.match(await session.upload('STOR large.csv', 'x'.repeat(30_000_000)), /^226 /)
  const downloadAt = performance.now()
  const data = await session.data()
  t.match(await session.command('RETR large.csv'), /^150 /)
  await sleep(pauseMs)
  data.resume()
  await once(data, 'close')
  t.match(await session.reply(), /^226 /)
  await isInSeconds('out', downloadAt)

  await session.download('NLST')
  t.same(await Promise.all(['in', 'out', 'list'].map(count)), [2, 1, 1])
  session.close()
})

t.test('transfers are counted by kind and result, with the bytes of files', async (t) => {
  const { url, value, reaches } = await startCounted()
  const session = await FtpSession.open(url)
  await session.upload('STOR counted.csv', '0123456789')
  await session.upload('APPE counted.csv', '01234')
  await session.download('RETR counted.csv')
  await session.download('LIST')
  await session.download('MLSD')
  t.match((await session.download('RETR missing.csv')).last, /^550 /)
  t.same(
    await Promise.all(
      [
        ...[transfers('in', 'done'), transfers('out', 'done'), transfers('list', 'done')],
        ...[transfers('out', 'refused'), transferred('in'), transferred('out')],
      ].map(value),
    ),
    [2, 1, 2, 1, 15, 15],
  )
  const upload = await session.beginUpload('STOR broken.csv')
  upload.write('012')
  await reaches(transferred('in'), 18)
  session.close()
  await reaches(transfers('in', 'broken_off'), 1)
  t.equal(await value(transfers('in', 'done')), 2)
})

t.test('sessions are counted by login and by end', async (t) => {
  const sessions = { inProcess: 3, perAddress: 3, perAccount: 100 }
  const front = await startCounted({ sessions })
  const { url, value, reaches } = front
  const first = await FtpSession.open(url)
  await reaches('rollcall_ftp_sessions', 1)
  t.match(await first.command('QUIT'), /^221 /)
  await reaches(ended('quit'), 1)
  const second = await FtpSession.open(url)
  second.close()
  await reaches(ended('connection_lost'), 1)
  const wrong = await FtpSession.connect(url)
  t.match(await wrong.login('not a key'), /^530 /)
  t.match(await wrong.login('not a key'), /^530 /)
  await wrong.command('QUIT')
  await reaches(ended('quit'), 2)
  t.same(await Promise.all(['ok', 'wrong', 'forbidden'].map((result) => value(login(result)))), [2, 2, 0])

  const open = await Promise.all([1, 2, 3].map(() => FtpSession.open(url)))
  await reaches('rollcall_ftp_sessions', 3)
  for (let refused = 1; refused <= 2; refused += 1) {
    const session = new FtpSession(url)
    t.match(await session.reply(), /^421 /)
    t.equal(await value('rollcall_ftp_connections_refused_total'), refused)
    session.close()
  }
  t.equal(await value('rollcall_ftp_sessions'), 3)
  await front.stop()
  t.equal(await value(ended('stop')), 3)
  t.equal(await value(ended('quit')), 2)
  for (const session of open) session.close()
})
