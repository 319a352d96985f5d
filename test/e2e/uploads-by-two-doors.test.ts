import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Random, seedOfToday } from '../campaigns/random.ts'
import { metricValue } from '../helpers/metric-value.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { HttpUpload, partOf } from '../helpers/http-upload.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/**
 * Uploads that are cut at random places, and resumed by FTP and by HTTP in turn, until they are whole: byte for byte
 * the file. `ROLLCALL_UPLOADS` is their number, `ROLLCALL_SEED` that of the day's choices.
 */

const uploads = Number(process.env['ROLLCALL_UPLOADS'] ?? 6)
const seed = Number(process.env['ROLLCALL_SEED'] ?? seedOfToday)
t.setTimeout(60_000 + uploads * 30_000)

for (const STAGING of ['disk', 'gridfs'])
  t.test(`what one door began the other resumes: ${STAGING}`, async (t) => {
    t.comment(`ROLLCALL_SEED=${seed} ROLLCALL_UPLOADS=${uploads}`)
    const random = new Random(seed)
    const service = await startService(t, ['control-plane', 'ftp'], { STAGING })
    const origin = controlPlaneOrigin(service)
    const ftp = service.processes.ftp!.ready.ftp!
    const doors = { http: httpDoor(origin), ftp: ftpDoor(ftp) }
    let cuts = 0
    const sizeOf = async (filename: string): Promise<number> => {
      const all = await service.get<Json[]>('/uploads')
      return all.find((each) => each.filename === filename)?.unfinished_size ?? 0
    }
    for (let i = 0; i < uploads; i += 1) {
      const filename = `upload ${i}.bin`
      const content = randomBytes(random.between(1, 3_000_000))
      let door = random.oneOf(['http', 'ftp'] as const)
      for (let isWhole = false, tries = 0; !isWhole; tries += 1, door = door === 'http' ? 'ftp' : 'http') {
        if (tries > 100) throw new Error(`${filename} doesn't end`)
        await isUnlocked(service, filename)
        const from = await sizeOf(filename)
        // The tenth cut is the last, so that each upload ends.
        const to = cuts % 10 === 9 ? content.length : random.between(from, content.length)
        isWhole = await doors[door]({ filename, content, from, to })
        cuts += 1
        t.ok((await sizeOf(filename)) <= content.length)
      }
      const response = await fetch(`${origin}/svc/api/v2/uploads/${encodeURIComponent(filename)}`, {
        headers: { authorization: basic(`api:${bootstrapKey}`) },
      })
      t.ok(Buffer.from(await response.arrayBuffer()).equals(content), `${filename} is whole`)
    }
    t.comment(`${uploads} uploads in ${cuts} parts`)
    const all = await service.get<Json[]>('/uploads')
    t.equal(all.length, uploads)
    t.ok(all.every(({ unfinished_size: unfinished }) => unfinished === null))
  })

/** Sends the bytes from `from` on, and cuts the connection at `to`. Resolves to whether the file is whole. */
type Door = (part: { filename: string; content: Buffer; from: number; to: number }) => Promise<boolean>

const httpDoor =
  (origin: string): Door =>
  async ({ filename, content, from, to }) => {
    const rest = content.length - from
    // Nothing is left to send: a range has at least one byte, so the last one is sent again by FTP.
    if (rest === 0) return false
    const headers = partOf(from, rest, content.length)
    const upload = new HttpUpload(origin, filename, { headers })
    if (to === content.length) {
      const { body } = await upload.end(content.subarray(from))
      // A cut upload may have begun only now; the next try comes later.
      if (body.success !== true && !['invalid_request', 'validation_failed'].includes(body.error_code))
        throw new Error(JSON.stringify(body))
      return body.success
    }
    upload.write(content.subarray(from, to))
    // Some cuts come before the bytes, and some after.
    await sleep(to % 40)
    upload.cut()
    return false
  }

const ftpDoor =
  (url: string): Door =>
  async ({ filename, content, from, to }) => {
    const session = await FtpSession.open(url)
    await session.command('TYPE I')
    const data = await session.beginUpload(`STOR ${filename}`, from).catch((error: unknown) => {
      if (!/^(450|554) /.test((error as Error).message)) throw error
      return null
    })
    if (data === null) {
      session.close()
      return false
    }
    try {
      if (to === content.length) {
        data.end(content.subarray(from))
        return (await session.reply()).startsWith('226')
      }
      data.write(content.subarray(from, to))
      await sleep(to % 40)
      return false
    } finally {
      session.close()
      data.destroy()
    }
  }

const isUnlocked = (service: Awaited<ReturnType<typeof startService>>, filename: string) =>
  until(
    `the end of the lock of ${filename}`,
    () => service.collections.uploads.countDocuments({ name: filename, lease: { $ne: null } }),
    (count) => count === 0,
  )

t.test(
  '2 GB are received at flat memory',
  { skip: process.env['ROLLCALL_UPLOADS'] === undefined && 'ROLLCALL_UPLOADS is not set' },
  async (t) => {
    const service = await startService(t, ['control-plane'], { UPLOAD_MAX_MB: '0' })
    const { hostname, port } = new URL(controlPlaneOrigin(service))
    const memory = async (): Promise<number> => {
      const text = await (await fetch(`${controlPlaneOrigin(service)}/metrics`)).text()
      return metricValue(text, 'process_resident_memory_bytes') / 1e6
    }
    const send = async (bytes: number): Promise<number> => {
      const socket = connect(Number(port), hostname)
      socket.write(
        `PUT /svc/api/v2/uploads/large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n` +
          `Authorization: ${basic(`api:${bootstrapKey}`)}\r\nContent-Length: ${bytes}\r\n\r\n`,
      )
      const piece = Buffer.alloc(1_000_000, 'x')
      let largest = 0
      for (let sent = 0; sent < bytes; sent += piece.length) {
        if (!socket.write(piece)) await once(socket, 'drain')
        if (sent % 100_000_000 === 0) largest = Math.max(largest, await memory())
      }
      let reply = ''
      socket.setEncoding('utf8').on('data', (text: string) => (reply += text))
      await once(socket, 'close')
      t.match(reply, /"success":true/)
      return largest
    }
    const small = await send(200_000_000)
    const large = await send(2_000_000_000)
    t.comment(`${small.toFixed(0)} MB of memory for 200 MB, ${large.toFixed(0)} MB for 2 GB`)
    t.ok(large < small + 100)
  },
)
