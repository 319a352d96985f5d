import { setTimeout as sleep } from 'node:timers/promises'
import type { MongoClient } from 'mongodb'
import { serverUsage } from './mongodb-server.ts'
import { readPeakMB, resetPeak } from './processes.ts'
import type { Measured, Work } from './scenario.ts'

/** Samples the work's processes and the server while the work is done, and says what it cost. */
export async function measure<T>(server: MongoClient, work: Work<T>): Promise<Measured & { done: T }> {
  const { pid: serverPid, writes: writesBefore } = await serverUsage(server)
  const ofServer = { name: 'mongod', pids: () => [serverPid] }
  const all = [...work.processes, ofServer]
  await Promise.all(all.flatMap(({ pids }) => pids().map(resetPeak)))
  const peaks = all.map(() => 0)
  const read = async (): Promise<Omit<Sample, 'seconds'>> => {
    const [{ writes, cpuSeconds }, ...clients] = await Promise.all([
      serverUsage(server),
      ...work.processes.map((one) => one.cpuSeconds()),
    ])
    // The peak of a child ends with it, so each sample reads it.
    for (const [i, { pids }] of all.entries()) peaks[i] = Math.max(peaks[i]!, await readPeakMB(pids()))
    return { rows: work.progress?.() ?? writes - writesBefore, cpu: [...clients, cpuSeconds] }
  }
  const before = await read()
  const startedAt = performance.now()
  const elapsed = () => (performance.now() - startedAt) / 1000
  const ended = new AbortController()
  const sample = async () => ({ seconds: elapsed(), ...(await read()) })
  const sampling = collectSamples(sample, work.sampleIntervalMs ?? 250, ended.signal)
  let done: T
  try {
    done = await work.do()
  } finally {
    ended.abort()
  }
  const seconds = elapsed()
  const rows = typeof work.rows === 'number' ? work.rows : work.rows()
  const between = (await sampling).filter((one) => one.seconds < seconds)
  // The last sample has all rows, whatever the counter says: it may lag behind.
  const last: Sample = { ...(await read()), seconds, rows }
  const samples = [{ ...before, seconds: 0, rows: 0 }, ...between, last]

  const byName = <V>(pick: (i: number) => V): Record<string, V> =>
    Object.fromEntries(all.map(({ name }, i) => [name, pick(i)]))
  const cpuSince = ({ cpu }: Sample, i: number) => cpu[i]! - before.cpu[i]!
  const clients = work.processes.reduce((sum, _, i) => sum + cpuSince(last, i), 0)
  return {
    done,
    seconds,
    rows,
    client_us_per_row: (clients / rows) * 1e6,
    server_us_per_row: (cpuSince(last, all.length - 1) / rows) * 1e6,
    processes: byName((i) => ({ cpu_seconds: cpuSince(last, i), peak_memory_mb: peaks[i]! })),
    timeline: {
      seconds: samples.map((one) => one.seconds),
      rows: samples.map((one) => one.rows),
      cpu_seconds: byName((i) => samples.map((one) => cpuSince(one, i))),
    },
  }
}

interface Sample {
  seconds: number
  rows: number
  /** Seconds of CPU time in the order of the processes, the server last. */
  cpu: number[]
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
