import { createServer } from 'node:http'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { chromiumPath, consoleBrowser } from '../helpers/console-browser.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { metricValue } from '../helpers/metric-value.ts'
import { present } from '../helpers/present.ts'
import { basic, bootstrapKey, createList, startService, until } from '../helpers/service.ts'

/**
 * What pages that watch imports cost the service. One page is watched in a browser, and its calls are repeated for the
 * others, because 50 tabs would take the processors that are to be measured. ROLLCALL_WATCHERS sets their number; the
 * figures are in docs/decisions/212-console.md.
 */
const watchers = Number(process.env['ROLLCALL_WATCHERS'] ?? 4)
const isMeasured = process.env['ROLLCALL_WATCHERS'] !== undefined
const measuredMs = isMeasured ? 20_000 : 4_000
/** Pages are opened one after the other within the pause between two polls of a page. */
const openingMs = isMeasured ? 5_000 : 0
const headers = { authorization: basic(`api:${bootstrapKey}`) }

if (chromiumPath === undefined) t.plan(0, 'chromium is not installed')
else {
  const service = await startService(t, ['control-plane', 'engine'])
  const { origin, open, problems } = await consoleBrowser(t, service)
  const { ready } = present(service.processes['control-plane'], 'the control plane')
  const metricsUrl = present(ready.metrics['control_plane'], 'the URL of the metrics')

  /** Imports that download as long as the test runs, a line at a time. */
  async function beginSlowImports(count: number): Promise<number[]> {
    const server = createServer((_request, response) => {
      response.write('email\n')
      const timer = setInterval(() => response.write('ann@example.com\n'), 200)
      response.on('close', () => clearInterval(timer))
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    const url = `http://127.0.0.1:${listeningPort(server)}/people.csv`
    const ids: number[] = []
    for (let i = 0; i < count; i += 1) {
      const list = await createList(service)
      const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: { column_mapping: ['email'], file_source: { type: 'url', url } },
      })
      await until(
        'the download',
        () => service.get(`/subscriber_imports/${id}`),
        ({ download }) => download?.bytes_received > 0,
      )
      ids.push(id)
    }
    return ids
  }

  interface Sent {
    path: string
    afterMs: number
  }

  /** The calls of a real page that watches an import. */
  async function callsOfPage(id: number): Promise<Sent[]> {
    const page = await open(t, `/console/imports/${id}`)
    await page.getByText('Downloading', { exact: true }).waitFor()
    const sent: Sent[] = []
    const startedAt = performance.now()
    page.on('request', (request) => {
      const path = request.url().slice(origin.length)
      if (path.startsWith('/svc/')) sent.push({ path, afterMs: performance.now() - startedAt })
    })
    const watching = page.waitForRequest(/\/events$/)
    await page.reload()
    await watching
    await sleep(measuredMs)
    await page.close()
    return sent
  }

  /**
   * Sends the calls of a page, of another import, for as long as the page was watched and until two events have come.
   * Resolves to the number of events.
   */
  async function watch(sent: Sent[], from: number, to: number): Promise<number> {
    let events = 0
    const ending = new AbortController()
    const { signal } = ending
    const ended = until(
      'two events',
      async () => events,
      (count) => count >= 2,
      60_000,
    )
    const over = Promise.all([sleep(measuredMs), ended]).finally(() => ending.abort())
    await Promise.all(
      sent.map(async ({ path, afterMs }) => {
        await sleep(afterMs)
        try {
          const response = await fetch(origin + path.replace(`/${from}/`, `/${to}/`), { headers, signal })
          const text = response.body!.pipeThrough(new TextDecoderStream())
          for await (const piece of text) events += piece.match(/^data:/gm)?.length ?? 0
        } catch (error) {
          if (!signal.aborted) throw error
        }
      }),
    )
    await over
    return events
  }

  const cpuSeconds = async () =>
    metricValue(await (await fetch(metricsUrl)).text(), 'process_cpu_seconds_total')

  /** Commands, processor time and what another call takes, while the work is done, with or without other calls. */
  async function measure(work: () => Promise<unknown>, hasOtherCalls = true) {
    const { db } = service
    const profile = db.collection('system.profile')
    await db.command({ profile: 0 })
    await profile.drop()
    await db.createCollection('system.profile', { capped: true, size: 256e6 })
    await db.command({ profile: 2, filter: { ns: { $ne: `${db.databaseName}.system.profile` } } })
    const cpuBefore = await cpuSeconds()
    const times: number[] = []
    const beganAt = performance.now()
    let isOver = false
    const working = work().finally(() => (isOver = true))
    while (hasOtherCalls && !isOver) {
      const startedAt = performance.now()
      const response = await fetch(`${origin}/svc/api/v2/mailing_lists/1`, { headers })
      await response.arrayBuffer()
      times.push(performance.now() - startedAt)
      await sleep(20)
    }
    await working
    const seconds = (performance.now() - beganAt) / 1000
    const cpu = (await cpuSeconds()) - cpuBefore
    await db.command({ profile: 0 })
    const sorted = times.toSorted((a, b) => a - b)
    const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))]!
    return {
      ...{ commands: await profile.countDocuments(), cpu, seconds, calls: times.length },
      ...{ median: at(0.5), p99: at(0.99) },
    }
  }

  t.test('pages that watch imports share what the service reads for them', async (t) => {
    const ids = await beginSlowImports(4)
    const sent = await callsOfPage(ids[0]!)
    const streams = sent.filter(({ path }) => path.endsWith('/events'))
    t.equal(streams.length, 1, 'one event stream a page')
    const idle = await measure(() => sleep(measuredMs), false)
    const quiet = await measure(() => sleep(measuredMs + openingMs))
    let events: number[] = []
    const watched = await measure(async () => {
      const pages = Array.from({ length: watchers }, async (_, i) => {
        await sleep((openingMs * i) / watchers)
        return watch(sent, ids[0]!, ids[i % ids.length]!)
      })
      events = await Promise.all(pages)
    })
    t.ok(Math.min(...events) >= 2, 'each page sees its import move')
    const seconds = watched.seconds - openingMs / 1000
    // The service reads by itself all the time. The other calls are as many as the machine was able to answer.
    const beyondIdle = ({ commands, seconds }: typeof idle) =>
      commands - (idle.commands / idle.seconds) * seconds
    const ofCalls = (beyondIdle(quiet) / quiet.calls) * watched.calls
    const commands = (beyondIdle(watched) - ofCalls) / watchers / seconds
    const cpu = ((watched.cpu - quiet.cpu) / watchers / seconds) * 100
    t.comment(
      `${sent.length} calls of a page in ${measuredMs / 1000} s; ${Math.min(...events)} to ${Math.max(...events)} events`,
    )
    t.comment(
      `${commands.toFixed(2)} commands and ${cpu.toFixed(2)} % of a processor a second for each of ${watchers}`,
    )
    for (const [name, { median, p99, calls }] of Object.entries({ quiet, watched }))
      t.comment(
        `${name}: other calls take ${median.toFixed(1)} ms, 99 % up to ${p99.toFixed(1)} ms (${calls})`,
      )
    // Most of them are the first calls of a page.
    t.ok(commands < 6, `${commands.toFixed(1)} commands a second for a page`)
    t.same(problems, [])
  })
}
