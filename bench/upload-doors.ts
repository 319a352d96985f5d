import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { Client } from 'basic-ftp'
import { exitAfter } from './interrupt.ts'
import { roundOrder } from './round-order.ts'
import { withService, type Service } from './service.ts'

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
  async ftp({ ftp, key }: Service): Promise<void> {
    const client = new Client(60_000)
    try {
      await client.connect(ftp.hostname, Number(ftp.port))
      await client.login('api', key)
      await client.send('TYPE I')
      await client.uploadFrom(source(), 'door.bin')
    } finally {
      client.close()
    }
  },
  async http({ url, authorization }: Service): Promise<void> {
    const put = request(`${url}/svc/api/v2/uploads/door.bin`, {
      method: 'PUT',
      headers: { authorization, 'content-length': bytes },
    })
    const replied = once(put, 'response') as Promise<[IncomingMessage]>
    await pipeline(source(), put)
    const [response] = await replied
    const reply = await json(response)
    if (response.statusCode !== 200) throw new Error(JSON.stringify(reply))
  },
}
type Door = keyof typeof doors
const receivers = { ftp: 'ftp', http: 'control_plane' } as const

async function cpuSeconds({ metrics }: Service, door: Door): Promise<number> {
  const text = await (await fetch(metrics[receivers[door]] ?? '')).text()
  return Number(/^process_cpu_seconds_total (\S+)$/m.exec(text)?.[1])
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN

await exitAfter('rollcall-bench-', (folder) =>
  withService({ folder, settings: { UPLOAD_MAX_MB: '0' } }, async (service) => {
    const measured: Record<Door, { speed: number; cpu: number }[]> = { ftp: [], http: [] }
    for (let round = 0; round < rounds; round += 1)
      for (const door of roundOrder(['ftp', 'http'] as const, round, 1)) {
        const before = await cpuSeconds(service, door)
        const startedAt = performance.now()
        await doors[door](service)
        const speed = bytes / 1e3 / (performance.now() - startedAt)
        const cpu = (((await cpuSeconds(service, door)) - before) * 1e9) / (bytes / 1e3)
        measured[door].push({ speed, cpu })
        console.log(`${door.padEnd(4)} ${speed.toFixed(0)} MB/s, CPU ${cpu.toFixed(0)} us a MB`)
      }
    for (const door of ['ftp', 'http'] as const)
      console.log(
        `${door.padEnd(4)} median ${median(measured[door].map(({ speed }) => speed)).toFixed(0)} MB/s, CPU ${median(measured[door].map(({ cpu }) => cpu)).toFixed(0)} us a MB`,
      )
    return 0
  }),
)
