import { writeFile, readdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { slopePerMinute, type Sample } from '../campaigns/soak-metrics.ts'
import { ImportLane, problemsOf, sendRequests } from '../campaigns/soak-lists.ts'
import { anyOf, serveFiles, SoakClient } from '../campaigns/soak-load.ts'
import { Supervised } from '../campaigns/soak-processes.ts'
import { countsOf, startService, until, type ProcessName, type Service } from '../helpers/service.ts'
import { sweepFiles } from '../helpers/sweep-files.ts'

/**
 * Imports from all three sources, requests on the subscribers that they write, and uploads run together. Meanwhile
 * one of two engines, control planes and FTP servers is killed again and again. Nothing is lost or counted twice, the
 * metrics show what happened, and the processes that aren't killed don't grow. The short form kills each kind once
 * and doesn't measure growth; docs/campaigns.md has the long one.
 */
const minutes = Number(process.env['ROLLCALL_MINUTES'] ?? 0)
const isLong = minutes > 0
const killEveryMs = isLong ? 20_000 : 1_000
const scrapeEveryMs = isLong ? 5_000 : 1_000
const size = isLong ? { rows: 40_000, listRows: 150_000 } : { rows: 2_000, listRows: 5_000 }
const requesters = isLong ? { count: 4, pauseMs: 120 } : { count: 2, pauseMs: 120 }
/** Caches fill in the first quarter of a long soak, so growth counts only after it. */
const warmUpShare = 0.25
const maxMbPerMinute = 1
const maxHandlesPerMinute = 0.5

const names: ProcessName[] = ['control-plane', 'engine', 'ftp']
const timeout = (minutes + 10) * 60_000
t.setTimeout(timeout)

/** Two processes of each kind: one is killed again and again, the other one lives to the end. */
class Processes {
  readonly mortal = new Map<ProcessName, Supervised>()
  readonly steady = new Map<ProcessName, Supervised>()

  static async start(service: Service): Promise<Processes> {
    const processes = new Processes()
    // The steady ones start last, as `service.get` asks the control plane that started last.
    for (const group of [processes.mortal, processes.steady])
      await Promise.all(names.map(async (name) => group.set(name, await Supervised.start(service, name))))
    return processes
  }

  get all(): Supervised[] {
    return [...this.steady.values(), ...this.mortal.values()]
  }

  steadyOne(name: ProcessName): Supervised {
    return this.steady.get(name)!
  }

  mortalOne(name: ProcessName): Supervised {
    return this.mortal.get(name)!
  }

  async scrape(): Promise<void> {
    await Promise.all(this.all.map(({ lastRun }) => lastRun.scrape()))
  }
}

/** What a soak works with, and what it has done. */
interface Soak {
  service: Service
  processes: Processes
  client: SoakClient
  lanes: ImportLane[]
  begun: number
  kills: number
  problems: unknown[]
}

t.test('nothing is lost or counted twice while processes are killed', { timeout }, async (t) => {
  const soak = await startSoak(t)
  await run(t, soak)
  t.same(soak.problems, [], 'every request was answered')
  await checkReplies(t, soak)
  const imports = await checkImports(t, soak)
  await checkFiles(t, soak, imports)
  await checkMetrics(t, soak, imports)
  showLatencies(t, soak)
  if (isLong) await checkGrowth(t, soak)
  showErrors(t, soak)
})

async function startSoak(t: Test): Promise<Soak> {
  const service = await startService(t, [])
  const processes = await Processes.start(service)
  const client = new SoakClient(
    [processes.steadyOne('control-plane'), processes.mortalOne('control-plane')],
    [processes.steadyOne('ftp'), processes.mortalOne('ftp')],
  )
  const web = await serveFiles(t)
  const lanes = (['json', 'upload_directory', 'url'] as const).map(
    (source) => new ImportLane(client, source, web, size),
  )
  return { service, processes, client, lanes, begun: Date.now(), kills: 0, problems: [] }
}

/** Runs imports, requests and kills until the time is over; the short form ends when each kind was killed once. */
async function run(t: Test, soak: Soak): Promise<void> {
  const { processes, client, lanes } = soak
  const stopping = new AbortController()
  const { signal } = stopping
  const work = [
    ...lanes.map((lane) => lane.run(signal)),
    ...Array.from({ length: requesters.count }, (_, own) =>
      sendRequests(client, lanes, { own, all: requesters.count, pauseMs: requesters.pauseMs }, signal),
    ),
    every(killEveryMs, signal, async () => {
      const victim = isLong ? anyOf(names) : names[soak.kills % names.length]!
      soak.kills += 1
      client.note(`kills of ${victim}`)
      await processes.mortalOne(victim).killAndRestart()
      if (!isLong && soak.kills === names.length) stopping.abort()
    }),
    every(scrapeEveryMs, signal, () => processes.scrape()),
    every(60_000, signal, async () => {
      const minute = Math.round((Date.now() - soak.begun) / 60_000)
      t.comment(`minute ${minute}: ${said(client.happened)}; ${shown(processes.steady)}`)
    }),
  ].map((one) =>
    one.catch((error: unknown) => {
      soak.problems.push(error)
      stopping.abort()
    }),
  )
  if (isLong) await sleep(minutes * 60_000, undefined, { signal }).catch(() => undefined)
  if (isLong) stopping.abort()
  await Promise.all(work)
}

async function checkReplies(t: Test, { processes, client }: Soak): Promise<void> {
  const plane = processes.steadyOne('control-plane').lastRun
  const { replies } = await until(
    'the metrics of the last reply',
    async () => {
      await plane.scrape()
      const name = 'rollcall_http_request_duration_seconds_count'
      // The checks of the replies ask for the description; the soak's clients don't.
      const others = plane.sum(name, 'route="none"') + plane.sum(name, 'route="/openapi.json"')
      return { replies: plane.sum(name) - others }
    },
    ({ replies }) => replies >= client.steady.replies,
    10_000,
  ).catch((error: unknown) => ({ replies: String(error) }))
  if (client.steady.broken === 0)
    t.equal(replies, client.steady.replies, 'requests in the metrics are the answered ones')
  t.ok(client.steady.broken <= 3, `connections to steady processes break rarely: ${client.steady.broken}`)
}

async function checkImports(t: Test, { service, lanes }: Soak) {
  const imports = lanes.flatMap((lane) => lane.done)
  await until(
    'that imports are finalized',
    () => service.collections.imports.countDocuments({ finalized: false }),
    (count) => count === 0,
  )
  const sorted = (counts: Record<string, number>) =>
    JSON.stringify(
      Object.entries(counts)
        .filter(([, count]) => count > 0)
        .sort(),
    )
  const wrong = imports.filter(
    ({ view, expected }) => view.state !== 'finished' || sorted(countsOf(view)) !== sorted(expected),
  )
  t.same(wrong, [], `${imports.length} imports have finished with the counts that they must have`)
  t.same(
    (await service.collections.imports.distinct('_id')).sort((a, b) => a - b),
    imports.map(({ id }) => id).sort((a, b) => a - b),
    'each creation that was answered made one import, and there are no others',
  )
  const lists = lanes.flatMap((lane) => lane.lists)
  for (const list of lists) t.same(await problemsOf(service, list), [], `list ${list.id} is as it must be`)
  t.same(await service.collections.chunks.countDocuments(), 0, 'no chunk is left')
  return imports
}

type FinishedImports = Awaited<ReturnType<typeof checkImports>>

async function checkFiles(t: Test, { service, kills }: Soak, imports: FinishedImports): Promise<void> {
  // An engine that dies as it ends an import may leave a pin on the upload.
  const { pins = 0 } = await sweepFiles(service)
  t.ok(pins <= kills, `${pins} pins were left by ${kills} killed processes`)
  const folders = imports.map(({ id }) => path.join('staging', String(id)))
  const left = await filesLeft(service.dataFolder)
  // Whether a creation that broke off was committed is unknown, so its content stays for an hour.
  const isOfBrokenCreation = (file: string) =>
    file.startsWith('staging') && !folders.includes(path.dirname(file))
  t.same(
    left.filter((file) => !isOfBrokenCreation(file)),
    [],
    'no file of an import is left',
  )
  t.comment(`content of creations that broke off: ${left.filter(isOfBrokenCreation).length}`)
}

async function checkMetrics(t: Test, { processes, client }: Soak, imports: FinishedImports): Promise<void> {
  await processes.scrape()
  t.same(
    processes.all.flatMap(({ runs }) => runs.flatMap(({ fallen }) => fallen)),
    [],
    'no counter ever falls',
  )
  const engines = processes.all.filter(({ name }) => name === 'engine').flatMap(({ runs }) => runs)
  const recorded = imports.reduce((sum, { view }) => sum + Number(view.stats.number_of_records), 0)
  const counted = engines.reduce((sum, engine) => sum + engine.sum('rollcall_import_rows_total'), 0)
  t.comment(`rows: ${recorded} in imports, ${counted} in the metrics of ${engines.length} engines`)
  t.ok(counted <= recorded, 'the metrics count no row twice')
  if (isLong) t.ok(counted > recorded * 0.98, 'and miss only what was written between a scrape and a kill')
  const received = processes.steadyOne('ftp').lastRun.sum('rollcall_ftp_bytes_total', '"in"')
  t.ok(received >= client.steady.bytes, 'bytes in the metrics are at least those that were received')
  if (client.steady.brokenUploads === 0) t.equal(received, client.steady.bytes, 'and no others')
}

function showLatencies(t: Test, { client, begun, kills }: Soak): void {
  const latencies = client.latencies.sort((a, b) => a - b)
  t.comment(
    `requests: half within ${latencies[latencies.length >> 1]?.toFixed(1)} ms, 99% within ${latencies[Math.floor(latencies.length * 0.99)]?.toFixed(1)} ms`,
  )
  t.comment(`${((Date.now() - begun) / 60_000).toFixed(1)} min, ${kills} kills: ${said(client.happened)}`)
}

/** After the warm-up the steady processes must keep their memory, files and handles. */
async function checkGrowth(t: Test, { processes: { steady }, begun }: Soak): Promise<void> {
  for (const [name, { lastRun }] of steady) {
    const after = lastRun.samples.filter(({ at }) => at > begun + minutes * 60_000 * warmUpShare)
    const slope = (value: (sample: Sample) => number) => slopePerMinute(after, value)
    const [memory, files, handles] = [
      slope(({ rss }) => rss),
      slope(({ files }) => files),
      slope(({ handles }) => handles),
    ]
    t.comment(
      `${name}: ${memory.toFixed(3)} MB/min, of these ${slope(({ heap }) => heap).toFixed(3)} of heaps, ${files.toFixed(3)} files/min, ${handles.toFixed(3)} handles/min; ${described(after)}`,
    )
    t.ok(memory < maxMbPerMinute, `the memory of ${name} doesn't grow`)
    t.ok(files < maxHandlesPerMinute, `the open files of ${name} don't grow`)
    t.ok(handles < maxHandlesPerMinute, `the handles of ${name} don't grow`)
  }
  const file = process.env['ROLLCALL_SAMPLES']
  if (file !== undefined) await writeFile(file, csvOf(steady, begun))
}

function showErrors(t: Test, { processes }: Soak): void {
  for (const name of names) {
    const errors = processes.all
      .filter((one) => one.name === name)
      .flatMap(({ running }) => running.log().split('\n'))
      .filter((line) => /"level":"(?:error|fatal)"/.test(line))
    t.comment(
      `${name}: ${errors.length} errors in the logs of running processes ${errors.slice(0, 3).join(' ')}`,
    )
  }
}

/** Repeats the work until the signal, with a pause after each time. */
async function every(ms: number, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  for (;;) {
    await sleep(ms, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    await work()
  }
}

const said = (happened: Map<string, number>): string =>
  [...happened]
    .sort()
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')

function shown(processes: Map<ProcessName, Supervised>): string {
  return [...processes]
    .map(([name, { lastRun }]) => {
      const last = lastRun.samples.at(-1)
      return `${name} ${last?.rss.toFixed(0)} MB, ${last?.files} files, ${last?.handles} handles`
    })
    .join('; ')
}

function described(samples: Sample[]): string {
  const range = (value: (sample: Sample) => number) => {
    const values = samples.map(value).sort((a, b) => a - b)
    return `${values[0]?.toFixed(0)} to ${values.at(-1)?.toFixed(0)}, median ${values[values.length >> 1]?.toFixed(0)}`
  }
  return `${range(({ rss }) => rss)} MB; ${range(({ files }) => files)} files; ${range(({ handles }) => handles)} handles; ${samples.length} samples`
}

function csvOf(processes: Map<ProcessName, Supervised>, begun: number): string {
  const lines = [...processes].flatMap(([name, { lastRun }]) =>
    lastRun.samples.map(
      ({ at, rss, heap, files, handles }) =>
        `${name},${((at - begun) / 1000).toFixed(1)},${rss.toFixed(1)},${heap.toFixed(1)},${files},${handles}\n`,
    ),
  )
  return ['process,seconds,rss_mb,heap_mb,files,handles\n', ...lines].join('')
}

async function filesLeft(dataFolder: string): Promise<string[]> {
  const entries = await readdir(dataFolder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\/(?:uploads|staging)(?:\/|$)/.test(entry.parentPath))
    .map((entry) => path.join(path.relative(dataFolder, entry.parentPath), entry.name))
}
