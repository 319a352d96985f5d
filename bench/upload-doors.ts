import { Readable } from 'node:stream'
import { exitAfter } from './interrupt.ts'
import { measuredProcess } from './processes.ts'
import { alternate } from './round-order.ts'
import { uploadByFtp, withService, type Service } from './service.ts'
import { spread } from './statistics.ts'

/**
 * One upload at a time, by FTP and over HTTP in alternating rounds: MB/s, and CPU of the process that receives it.
 * `node bench/upload-doors.ts [MB] [ROUNDS]`
 */
const [megabytes = 512, rounds = 6] = process.argv.slice(2).map(Number)
const piece = Buffer.alloc(64 * 1024, 'x')
const pieces = Math.ceil((megabytes * 1e6) / piece.length)
const bytes = pieces * piece.length

const source = (): Readable => Readable.from(repeat(), { objectMode: false })

function* repeat(): Generator<Buffer> {
  for (let i = 0; i < pieces; i += 1) yield piece
}

const doors = {
  ftp: {
    receiver: 'ftp',
    upload: (service: Service) => uploadByFtp(service, source(), 'door.bin'),
  },
  http: {
    receiver: 'control_plane',
    upload: ({ client }: Service) =>
      client.putBytes('/uploads/door.bin', source(), { 'content-length': String(bytes) }),
  },
}
const names = ['ftp', 'http'] as const

const show = (door: string, speed: number, cpu: number) =>
  console.log(`${door} ${speed.toFixed(0)} MB/s, CPU ${cpu.toFixed(0)} us a MB`)

await exitAfter('rollcall-bench-', (folder) =>
  withService({ folder, settings: { UPLOAD_MAX_MB: '0' } }, async (service) => {
    const measured = await alternate(names, rounds, async (door) => {
      const { receiver, upload } = doors[door]
      const { usage } = measuredProcess(receiver, service.metrics[receiver])
      const { cpuSeconds: before } = await usage()
      const startedAt = performance.now()
      await upload(service)
      const speed = bytes / 1e3 / (performance.now() - startedAt)
      const cpu = ((await usage()).cpuSeconds - before) * (1e12 / bytes)
      show(door.padEnd(4), speed, cpu)
      return { speed, cpu }
    })
    for (const door of names) {
      const median = (unit: 'speed' | 'cpu') => spread(measured[door].map((one) => one[unit])).median
      show(`${door.padEnd(4)} median`, median('speed'), median('cpu'))
    }
    return 0
  }),
)
