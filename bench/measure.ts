import { setTimeout as sleep } from 'node:timers/promises'
import type { MongoClient } from 'mongodb'
import { serverUsage } from './mongodb-server.ts'
import type { Usage } from './processes.ts'
import type { Measured, Work } from './scenario.ts'

/** Samples the work's processes and the server while the work is done, and says what it cost. */
export async function measure<T>(server: MongoClient, work: Work<T>): Promise<Measured & { done: T }> {
  const names = [...work.processes.map(({ name }) => name), 'mongod']
  const before = await readUsages(server, work)
  const peaks = before.usages.map(({ memoryMB }) => memoryMB)
  const startedAt = performance.now()
  const elapsed = () => (performance.now() - startedAt) / 1000
  const read = async (): Promise<Sample> => {
    const { writes, usages } = await readUsages(server, work)
    for (const [i, { memoryMB }] of usages.entries()) peaks[i] = Math.max(peaks[i] ?? 0, memoryMB)
    return { seconds: elapsed(), rows: work.progress?.() ?? writes - before.writes, usages }
  }
  const ended = new AbortController()
  const sampling = collectSamples(read, work.sampleIntervalMs ?? 250, ended.signal)
  let done: T
  try {
    done = await work.do()
  } finally {
    ended.abort()
  }
  const seconds = elapsed()
  const rows = typeof work.rows === 'number' ? work.rows : work.rows()
  const between = (await sampling).filter((sample) => sample.seconds < seconds)
  // The last sample has all rows, whatever the counter says: it may lag behind.
  const last: Sample = { ...(await read()), seconds, rows }
  const samples = [{ seconds: 0, rows: 0, usages: before.usages }, ...between, last]

  const byName = <V>(pick: (i: number) => V): Record<string, V> =>
    Object.fromEntries(names.map((name, i) => [name, pick(i)]))
  const cpuSince = ({ usages }: Sample, i: number) => usages[i]!.cpuSeconds - before.usages[i]!.cpuSeconds
  const clients = work.processes.reduce((sum, _, i) => sum + cpuSince(last, i), 0)
  return {
    done,
    seconds,
    rows,
    client_us_per_row: (clients / rows) * 1e6,
    server_us_per_row: (cpuSince(last, names.length - 1) / rows) * 1e6,
    processes: byName((i) => ({ cpu_seconds: cpuSince(last, i), peak_memory_mb: peaks[i] ?? 0 })),
    timeline: {
      seconds: samples.map((sample) => sample.seconds),
      rows: samples.map((sample) => sample.rows),
      cpu_seconds: byName((i) => samples.map((sample) => cpuSince(sample, i))),
      memory_mb: byName((i) => samples.map(({ usages }) => usages[i]!.memoryMB)),
    },
  }
}

interface Sample {
  seconds: number
  rows: number
  /** In the order of the processes, the server last. */
  usages: Usage[]
}

const maxSamples = 240

/** Keeps at most 240 samples: at that number every other one is dropped, and the interval doubles. */
async function collectSamples(read: () => Promise<Sample>, intervalMs: number, signal: AbortSignal) {
  let samples: Sample[] = []
  while (await sleep(intervalMs, true, { signal }).catch(() => false)) {
    // A failed sample is dropped: a process may be about to end.
    const sample = await read().catch(() => null)
    if (sample !== null) samples.push(sample)
    if (samples.length < maxSamples) continue
    samples = samples.filter((_, i) => i % 2 === 0)
    intervalMs *= 2
  }
  return samples
}

async function readUsages(server: MongoClient, { processes }: Work<unknown>) {
  const [ofServer, ...ofClients] = await Promise.all([
    serverUsage(server),
    ...processes.map(({ usage }) => usage()),
  ])
  return { writes: ofServer.writes, usages: [...ofClients, ofServer] }
}
