import { writeFile, readdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { slopePerMinute, type Sample } from '../campaigns/soak-figures.ts'
import { ImportLane, problemsOf, sendRequests } from '../campaigns/soak-lists.ts'
import { anyOf, serveFiles, SoakClient } from '../campaigns/soak-load.ts'
import { Supervised } from '../campaigns/soak-processes.ts'
import { countsOf, startService, until, type ProcessName } from '../helpers/service.ts'

/**
 * A long day in short: imports from all three sources, requests on the subscribers that they write, uploads, while one
 * of two engines, control planes and FTP servers is killed again and again. Nothing is lost, nothing counted twice, the
 * metrics say what happened, and the three processes that aren't killed stay as large as they were.
 * The short form kills each kind once and says nothing of memory; the long one is in docs/campaigns.md.
 */
const minutes = Number(process.env['ROLLCALL_MINUTES'] ?? 0)
const isLong = minutes > 0
const killEveryMs = isLong ? 20_000 : 1_000
const scrapeEveryMs = isLong ? 5_000 : 1_000
const size = isLong ? { rows: 40_000, listRows: 150_000 } : { rows: 2_000, listRows: 5_000 }
const requesters = isLong ? { count: 4, pauseMs: 120 } : { count: 2, pauseMs: 120 }
/** Of a long soak: the beginning, in which caches fill, and what it may grow by afterwards. */
const warmUpShare = 0.25
const maxMbPerMinute = 1
const maxHandlesPerMinute = 0.5

const names: ProcessName[] = ['control-plane', 'engine', 'ftp']
const timeout = (minutes + 10) * 60_000
t.setTimeout(timeout)

t.test('imports, requests and uploads while processes are killed', { timeout }, async (t) => {
  const service = await startService(t, [])
  const steady = new Map<ProcessName, Supervised>()
  const mortal = new Map<ProcessName, Supervised>()
  // The one that lasts comes last: `service.get` asks that one.
  for (const group of [mortal, steady])
    await Promise.all(names.map(async (name) => group.set(name, await Supervised.start(service, name))))
  const everyone = [...steady.values(), ...mortal.values()]
  const client = new SoakClient(
    [steady.get('control-plane')!, mortal.get('control-plane')!],
    [steady.get('ftp')!, mortal.get('ftp')!],
  )
  const web = await serveFiles(t)
  const lanes = (['json', 'upload_directory', 'url'] as const).map(
    (source) => new ImportLane(client, source, web, size),
  )

  const begun = Date.now()
  const stopping = new AbortController()
  const { signal } = stopping
  let kills = 0
  const problems: unknown[] = []
  const fail = (error: unknown) => {
    problems.push(error)
    stopping.abort()
  }
  const work = [
    ...lanes.map((lane) => lane.run(signal)),
    ...Array.from({ length: requesters.count }, (_, own) =>
      sendRequests(client, lanes, { own, all: requesters.count, pauseMs: requesters.pauseMs }, signal),
    ),
    every(killEveryMs, signal, async () => {
      const victim = isLong ? anyOf(names) : names[kills % names.length]!
      kills += 1
      client.note(`kills of ${victim}`)
      await mortal.get(victim)!.killAndRestart()
      if (!isLong && kills === names.length) stopping.abort()
    }),
    every(scrapeEveryMs, signal, async () => {
      await Promise.all(everyone.map(({ life }) => life.scrape()))
    }),
    every(60_000, signal, async () => {
      t.comment(
        `minute ${Math.round((Date.now() - begun) / 60_000)}: ${said(client.happened)}; ${shown(steady)}`,
      )
    }),
  ].map((one) => one.catch(fail))
  if (isLong) await sleep(minutes * 60_000, undefined, { signal }).catch(() => undefined)
  if (isLong) stopping.abort()
  await Promise.all(work)
  t.same(problems, [], 'everybody was answered')
  const plane = steady.get('control-plane')!.life
  const { replies } = await until(
    'the metrics of the last reply',
    async () => {
      await plane.scrape()
      const name = 'rollcall_http_request_duration_seconds_count'
      // The description is asked for by what checks the replies, not by the soak's clients.
      const others = plane.sum(name, 'route="none"') + plane.sum(name, 'route="/openapi.json"')
      return { replies: plane.sum(name) - others }
    },
    ({ replies }) => replies >= client.steady.replies,
    10_000,
  ).catch((error: unknown) => ({ replies: String(error) }))
  if (client.steady.broken === 0)
    t.equal(replies, client.steady.replies, 'requests in the metrics are the answered ones')
  t.ok(client.steady.broken <= 3, `connections to those that live break rarely: ${client.steady.broken}`)

  const imports = lanes.flatMap((lane) => lane.done)
  await until(
    'that imports are cleared up',
    () => service.collections.imports.countDocuments({ settled: false }),
    (count) => count === 0,
  )
  const wrong = imports.filter(
    ({ view, expected }) =>
      view.state !== 'finished' ||
      JSON.stringify(Object.entries(countsOf(view)).sort()) !==
        JSON.stringify(
          Object.entries(expected)
            .filter(([, count]) => count > 0)
            .sort(),
        ),
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
  const ofImports = imports.map(({ id }) => path.join('staging', String(id)))
  const left = await filesLeft(service.dataFolder)
  // Of a creation that broke off nobody knows whether it was committed: its content lies there for an hour.
  const isOfBrokenCreation = (file: string) =>
    file.startsWith('staging') && !ofImports.includes(path.dirname(file))
  t.same(
    left.filter((file) => !isOfBrokenCreation(file)),
    [],
    'no file of an import is left',
  )
  t.comment(`content of creations that broke off: ${left.filter(isOfBrokenCreation).length}`)

  await Promise.all(everyone.map(({ life }) => life.scrape()))
  t.same(
    everyone.flatMap(({ lives }) => lives.flatMap(({ fallen }) => fallen)),
    [],
    'no counter ever falls',
  )
  const engines = everyone.filter(({ name }) => name === 'engine').flatMap(({ lives }) => lives)
  const recorded = imports.reduce((sum, { view }) => sum + Number(view.stats.number_of_records), 0)
  const counted = engines.reduce((sum, life) => sum + life.sum('rollcall_import_rows_total'), 0)
  t.comment(`rows: ${recorded} in imports, ${counted} in the metrics of ${engines.length} engines`)
  t.ok(counted <= recorded, 'the metrics count no row twice')
  if (isLong) t.ok(counted > recorded * 0.98, 'and miss only what was written between a scrape and a kill')
  const taken = steady.get('ftp')!.life.sum('rollcall_ftp_bytes_total', '"in"')
  t.ok(taken >= client.steady.bytes, 'bytes in the metrics are at least those that were taken')
  if (client.steady.brokenUploads === 0) t.equal(taken, client.steady.bytes, 'and no others')

  const latencies = client.latencies.sort((a, b) => a - b)
  t.comment(
    `requests: half within ${latencies[latencies.length >> 1]?.toFixed(1)} ms, 99% within ${latencies[Math.floor(latencies.length * 0.99)]?.toFixed(1)} ms`,
  )
  t.comment(`${((Date.now() - begun) / 60_000).toFixed(1)} min, ${kills} kills: ${said(client.happened)}`)
  if (isLong) {
    for (const [name, { life }] of steady) {
      const after = life.samples.filter(({ at }) => at > begun + minutes * 60_000 * warmUpShare)
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
  for (const name of names) {
    const alarms = everyone
      .filter((one) => one.name === name)
      .flatMap(({ running }) => running.log().split('\n'))
      .filter((line) => /"level":"(?:error|fatal)"/.test(line))
    t.comment(
      `${name}: ${alarms.length} errors in the logs of those that live ${alarms.slice(0, 3).join(' ')}`,
    )
  }
})

/** Again and again; the next time counts from the end of the last. */
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
    .map(([name, { life }]) => {
      const last = life.samples.at(-1)
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
  const lines = [...processes].flatMap(([name, { life }]) =>
    life.samples.map(
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
