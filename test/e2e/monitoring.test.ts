import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { dashboards } from '../../docs/monitoring/dashboards.ts'
import { alertDays, scraped, type AlertDays } from '../helpers/alert-days.ts'
import { createUrlImport } from '../helpers/downloads.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { metricValue } from '../helpers/metric-value.ts'
import { missing } from '../helpers/missing-programs.ts'
import {
  monitoringFolder,
  prometheusMissing,
  promtool,
  readRules,
  ruleFiles,
  startPrometheus,
} from '../helpers/prometheus.ts'
import {
  bootstrapKey,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Json,
  type Service,
} from '../helpers/service.ts'

/** Metrics, dashboards, rules and the runbook are compared with each other and with a real Prometheus. */
const rules = await readRules()
const alerts = rules.filter(({ alert }) => alert !== undefined)
const runbook = await readFile(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
const skip = prometheusMissing

const service = await startService(t, ['control-plane', 'engine', 'ftp'], { AUTH_FAILURES_PER_MINUTE: '5' })

/** What Grafana draws; in the SDK's type a query has no text. */
const panels: Json[] = dashboards.flatMap(({ title, panels }) =>
  panels!
    .filter(({ type }) => type !== 'row')
    .map((panel) => ({ ...panel, title: `${title}, ${panel.title}` })),
)

/** The queries of a panel by where they stand, with the values that Grafana gives its variables. */
const queriesOf = ({ title, targets }: Json): [string, string][] =>
  targets.map(({ expr, refId }: Json) => [
    `${title} ${refId}: ${expr}`,
    expr.replaceAll('$__rate_interval', '20s').replaceAll('$process', '.*'),
  ])

const areas = ['api', 'engines', 'uploads', 'imports', 'database']
const stateOf = (area: string): string =>
  panels.flatMap(queriesOf).find(([, expr]) => expr.includes(`area="${area}"`))![1]

async function metricsOf(running: Service): Promise<Map<string, string>> {
  const texts = new Map<string, string>()
  for (const [name, { ready }] of Object.entries(running.processes))
    for (const url of Object.values(ready.metrics)) texts.set(name, await (await fetch(url)).text())
  return texts
}

const engineMetric = async (series: string): Promise<number> =>
  metricValue((await metricsOf(service)).get('engine')!, series)

/** Resolves to the origin of a web server that ends with the test. */
async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return `http://127.0.0.1:${listeningPort(server)}`
}

t.test('every query has a number on a fresh service and while there is work', { skip }, async (t) => {
  const prometheus = await startPrometheus(t, service)
  const exprs = new Map<string, string>(panels.flatMap(queriesOf))
  for (const { title, annotations } of dashboards)
    for (const { name, expr } of annotations.list!) exprs.set(`${title}, annotation ${name}`, expr!)
  for (const { record } of rules) if (record !== undefined) exprs.set(record, record)
  const numbers = async (expr: string) =>
    (await prometheus.query(expr))
      .map(({ value }) => Number(value[1]))
      .filter((value) => !Number.isNaN(value))
  const empty = async () => {
    const missing: string[] = []
    // A recorded quantile of no requests is no number; the panels show 0.
    for (const [name, expr] of exprs)
      if ((name === expr ? await prometheus.query(expr) : await numbers(expr)).length === 0)
        missing.push(name)
    return missing
  }
  const noneEmpty = (missing: string[]) => missing.length === 0
  await until('numbers of a fresh service', empty, noneEmpty, 90_000)
  for (const area of areas) t.same(await numbers(stateOf(area)), [0], `${area} is good`)

  const list = await createList(service)
  const work = new AbortController()
  let round = 0
  const working = (async () => {
    while (!work.signal.aborted) {
      round += 1
      const rows = Array.from({ length: 500 }, (_, i) => `person${round}.${i}@b.example\n`)
      await importText(service, list.id, `email\n${rows.join('')}`)
      const session = await FtpSession.open(service.processes.ftp!.ready.ftp!)
      await session.upload(`STOR ${round}.csv`, 'email\na@b.example\n')
      session.close()
    }
  })()
  const isSeen = async () =>
    (await numbers('sum(rollcall_import_rows_total{result="added"}) > 500')).length > 0 ? empty() : ['work']
  try {
    await until('numbers for every query', isSeen, noneEmpty, 90_000)
  } finally {
    work.abort()
    await working
  }
  const { groups } = await prometheus.get('/api/v1/rules')
  for (const { rules } of groups)
    for (const rule of rules) t.equal(rule.health, 'ok', `${rule.name} ${rule.lastError ?? ''}`)
  t.same(await prometheus.firing(), [])
})

t.test('the files that Grafana reads are what the dashboards say', async (t) => {
  for (const dashboard of dashboards) {
    const file = path.join(monitoringFolder, 'grafana/dashboards', `${dashboard.uid}.json`)
    t.same(
      JSON.parse(await readFile(file, 'utf8')),
      JSON.parse(JSON.stringify(dashboard)),
      `${dashboard.uid}: run npm run dashboards`,
    )
  }
})

t.test('every panel says what is good and what to do, and has a unit and a place', async (t) => {
  for (const { title, description, fieldConfig, options, gridPos, targets } of panels) {
    t.match(description, /^[^]{20,}\.$/, title)
    t.match(fieldConfig?.defaults?.unit ?? options.yAxis.unit, /^\w+$/, title)
    t.ok(Number(gridPos.x) + Number(gridPos.w) <= 24 && targets.length > 0, title)
    for (const [, alert] of description.matchAll(/\b(Rollcall\w+)/g))
      t.ok(alertDays[alert] !== undefined, `${title}: ${alert}`)
  }
})

t.test('every alert has a severity, a summary, a section of the runbook and its two days', async (t) => {
  const names = alerts.map(({ alert }) => alert!)
  t.same(names, [...new Set(names)])
  t.same(Object.keys(alertDays).sort(), [...names].sort())
  const spelled: Record<string, string> = { m: 'min', h: 'h' }
  for (const { alert, expr, for: wait, labels, annotations } of alerts) {
    t.match(labels, { severity: /^(critical|warning|info)$/ })
    t.equal(annotations!['runbook_url'], `docs/runbook.md#${alert!.toLowerCase()}`)
    t.ok(
      areas.includes(labels!['area']!) || /by \(job|absent|job=~/.test(expr),
      `${alert} is in the overview`,
    )
    const window = [...expr.matchAll(/\[(\d+)([mh])/g)].map(
      ([, number, unit]) => `${number} ${spelled[unit!]}`,
    )
    const cells = [
      `[${alert}](#${alert!.toLowerCase()})`,
      labels!['severity'],
      wait === undefined ? 'at once' : wait.replace('m', ' min'),
      window[0] ?? '',
      annotations!['summary'],
    ]
    t.ok(
      runbook.includes(`\n| ${cells.join(' | ')} |\n`),
      `the table of what rings when has ${cells.join(' | ')}`,
    )
    const section = new RegExp(`^## ${alert}\\n([^]*?)(?=^## |$(?![^]))`, 'm').exec(runbook)?.[1] ?? ''
    for (const part of ['Means', 'Look', 'Do'])
      t.match(section, new RegExp(`^\\*\\*${part}:\\*\\* \\S`, 'm'), `${alert}: ${part}`)
  }
  const sections = [...runbook.matchAll(/^## (Rollcall\w+)$/gm)].map((match) => match[1])
  t.same([...sections].sort(), [...names].sort(), 'no section is left over')
})

const scrapeSeconds = [15, 60, 120]
t.test(
  'at each interval every alert fires on its bad day, and never on its good one',
  { skip },
  async (t) => {
    const day = (alert: string, seconds: number, which: Exclude<keyof AlertDays, 'labels' | 'at'>) => {
      const rule = alerts.find((other) => other.alert === alert)!
      const { labels, at = '20m', [which]: series = {} } = alertDays[alert]!
      const fires = which !== 'good'
      const expected = { exp_labels: { ...rule.labels, ...labels }, exp_annotations: rule.annotations }
      const minutes = Array.from({ length: Number.parseInt(at) }, (_, index) => `${index + 1}m`)
      return {
        name: `${alert}, the day ${which}, scraped each ${seconds} s`,
        interval: `${seconds}s`,
        input_series: Object.entries(series).map(([name, samples]) => ({
          series: name,
          values: scraped(samples, seconds),
        })),
        alert_rule_test: (fires ? [at, `${at}30s`, `${at}60s`, `${at}90s`] : minutes).map((time) => ({
          eval_time: time,
          alertname: alert,
          exp_alerts: fires ? [expected] : [],
        })),
      }
    }
    const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-rules-'))
    t.teardown(() => rm(folder, { recursive: true }))
    // Each rule is tested alone: with all others it would be evaluated on every day.
    const alone = async (alert: string): Promise<string> => {
      const { expr } = alerts.find((other) => other.alert === alert)!
      const own = rules.filter((rule) =>
        rule.record === undefined ? rule.alert === alert : expr.includes(rule.record),
      )
      const [ruleFile, file] = ['rules', 'days'].map((name) => path.join(folder, `${alert}-${name}.yml`))
      const tests = scrapeSeconds.flatMap((seconds) => [
        day(alert, seconds, 'bad'),
        day(alert, seconds, 'good'),
        ...(['started', 'restarted', 'unseen'] as const)
          .filter((which) => alertDays[alert]![which] !== undefined)
          .map((which) => day(alert, seconds, which)),
      ])
      await writeFile(ruleFile!, JSON.stringify({ groups: [{ name: 'own', rules: own }] }))
      await writeFile(file!, JSON.stringify({ rule_files: [ruleFile], evaluation_interval: '30s', tests }))
      return file!
    }
    const files = await Promise.all(Object.keys(alertDays).map(alone))
    const { status, output } = promtool(['test', 'rules', ...files])
    t.equal(status, 0, output)
    t.equal(promtool(['check', 'rules', ...ruleFiles]).status, 0)
    for (const name of ['prometheus.yml', 'without-compose.yml']) {
      const settings = path.join(monitoringFolder, 'prometheus', name)
      const check = promtool(['check', 'config', settings])
      t.equal(check.status, 0, check.output)
      const { scrape_configs: jobs }: Json = parse(await readFile(settings, 'utf8'))
      const names: string[] = jobs.map((job: Json) => job.job_name)
      t.same(
        names.filter((job) => job.startsWith('rollcall-')),
        ['rollcall-control-plane', 'rollcall-engine', 'rollcall-ftp'],
      )
    }
  },
)

t.test(
  'what the runbook and the dashboards say to ask for can be asked for',
  { skip: missing('curl') },
  async (t) => {
    const operating = await readFile(new URL('../../docs/operating.md', import.meta.url), 'utf8')
    const descriptions = panels.map(({ description }) => description)
    const text = [runbook, operating, ...descriptions].join('\n')
    const { http } = service.processes['control-plane']!.ready
    const list = await createList(service)
    const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        begins_at: '2100-01-01T00:00',
        column_mapping: ['email'],
        file_source: { type: 'json', content: 'email\nann@example.com\n' },
      },
    })
    const filledIn = (said: string) => said.replace('http://HOST:PORT', http!).replace(/\bID\b/, String(id))
    const api = `${http}/svc/api/v2`
    const env = { PATH: process.env['PATH'], KEY: bootstrapKey, API: api }
    const commands = [...new Set([...text.matchAll(/`curl ([^`]+)`/g)].map((match) => match[1]!))]
    t.ok(commands.length >= 2)
    for (const command of commands) {
      const script = `curl --silent --show-error --fail ${filledIn(command)}`
      await t.resolves(promisify(execFile)('bash', ['-c', script], { env }), command)
    }
    const asked = text.matchAll(/(?:(GET|POST) (?:\$API)?|`\$API)(\/[a-z_]+\/[\w/?=]+)/g)
    const requests = new Map([...asked].map(([, method = 'GET', path]) => [filledIn(path!), method]))
    t.ok(requests.size >= 3)
    for (const [path, method] of requests)
      t.equal((await service.call(method, path)).status, 200, `${method} ${path}`)
  },
)

t.test('bytes that were imported are those of the file', async (t) => {
  const bytes = () => engineMetric('rollcall_import_bytes_total{stage="import"}')
  const before = await bytes()
  const records = Array.from({ length: 100 }, (_, i) => `person${i}@bytes.example,é`)
  const list = await createList(service)
  await importText(service, list.id, `email\n${records.join('\n')}\n`, { column_mapping: ['email', null] })
  const length = Buffer.byteLength(records.join(''))
  await until('all batches', bytes, (after) => after - before >= length)
  t.equal((await bytes()) - before, length)
})

t.test('of a download bytes are counted however they come, and the times of its stages', async (t) => {
  const bytes = () => engineMetric('rollcall_import_bytes_total{stage="download"}')
  const before = await bytes()
  const pieces = Array.from({ length: 5 }, (_, i) => `person${i}@pieces.example\n`.repeat(4_000))
  const origin = await serve(t, (_, response) => {
    void (async () => {
      for (const piece of pieces) {
        response.write(piece)
        await sleep(50)
      }
      response.end()
    })()
  })
  const series = (stage: string) => `rollcall_import_stage_duration_seconds_sum{stage="${stage}"}`
  const stages = ['wait', 'obtain', 'split', 'import', 'finish']
  const work = ['rollcall_import_chunk_duration_seconds_sum', 'rollcall_bulk_write_duration_seconds_sum']
  const sums = () => Promise.all([...stages.map(series), ...work].map(engineMetric))
  const sumsBefore = await sums()
  const { id } = await createUrlImport(service, `${origin}/pieces.csv`)
  t.match(await importEnd(service, id), { state: 'finished' })
  t.equal((await bytes()) - before, Buffer.byteLength(pieces.join('')))

  // The sending alone takes a quarter of a second, and the import's times are stored.
  const spent = (await sums()).map((sum, i) => sum - sumsBefore[i]!)
  const [wait, obtain, split, whole, finish, chunks, writes] = spent as [number, ...number[]]
  const { begins_at, started_at, finished_at } = (await service.collections.imports.findOne({ _id: id }))!
  const nearly = (seconds: number | undefined, ms: number) =>
    t.ok(Math.abs(seconds! - ms / 1_000) < 0.002, `${seconds} s for ${ms} ms`)
  nearly(wait, started_at!.getTime() - begins_at.getTime())
  nearly(whole, finished_at!.getTime() - started_at!.getTime())
  t.ok(obtain! >= 0.2 && obtain! < whole!, `${obtain} s of ${whole}`)
  for (const part of [split, finish]) t.ok(part! > 0.0005 && part! < whole!, `${part} s of ${whole}`)
  // Chunks are written side by side, so their times together may be longer than the import.
  for (const part of [chunks, writes]) t.ok(part! > 0.0005 && part! < 16 * whole!, `${part} s of ${whole}`)
})

t.test('a download that may be tried again counts as failed, and one that may not as refused', async (t) => {
  const attempts = async () => {
    const count = (result: string) =>
      engineMetric(`rollcall_import_download_attempts_total{result="${result}"}`)
    return { failed: await count('failed'), refused: await count('refused') }
  }
  const origin = await serve(t, (request, response) => {
    if (request.url === '/page.csv') response.end('<!doctype html><html><body>Sign in</body></html>')
    else response.writeHead(503).end()
  })
  const before = await attempts()
  const { id: page } = await createUrlImport(service, `${origin}/page.csv`)
  t.match(await importEnd(service, page), { state: 'failed' })
  t.same(await attempts(), { ...before, refused: before.refused + 1 })
  const { id: later } = await createUrlImport(service, `${origin}/busy.csv`)
  await until('a try', attempts, ({ failed }) => failed > before.failed)
  await service.post(`/subscriber_imports/${later}/cancel`)
  t.same(await attempts(), { failed: before.failed + 1, refused: before.refused + 1 })
})

t.test('an import of which every row failed is counted, and one without a row is not', async (t) => {
  const count = () => engineMetric('rollcall_imports_every_row_failed_total')
  const before = await count()
  const list = await createList(service)
  await importText(service, list.id, 'email\n')
  await importText(service, list.id, 'email\nnone\nann@example.com\n')
  await importText(service, list.id, 'email\nnone\nnothing\n')
  await importText(service, list.id, 'email\nnone\n', { dry_run: true })
  // Counted when the import is finalized, a moment after its end.
  await until('the count', count, (now) => now > before)
  await until(
    'no import to finalize',
    () => service.collections.imports.countDocuments({ finalized: false, state: 'finished' }),
    (left) => left === 0,
  )
  t.equal(await count(), before + 1)
})

t.test('strange methods, paths, names and keys make no label', async (t) => {
  const url = service.processes['control-plane']!.ready.http!
  const strange = 'strange_thing_17'
  for (const path of [`/svc/api/v2/${strange}`, `/${strange}`, `/svc/api/v2/mailing_lists/${strange}`])
    await (await fetch(url + path, { method: 'PROPFIND', headers: { 'x-request-id': strange } })).text()
  await service.call('GET', `/subscriber_imports/${strange}`)
  await service.call('GET', `/mailing_lists?${strange}=1`, undefined, { key: `${strange}${strange}` })
  const session = await FtpSession.connect(service.processes.ftp!.ready.ftp!)
  for (const line of [`USER ${strange}`, `PASS ${strange}`, strange.toUpperCase(), `STOR ${strange}`])
    await session.command(line)
  session.close()
  for (const [name, text] of await metricsOf(service)) t.notMatch(text.toLowerCase(), strange, name)
  const text = (await metricsOf(service)).get('control-plane')!
  const methods = new Set([...text.matchAll(/[{,]method="([^"]*)"/g)].map((match) => match[1]))
  t.ok(methods.has('other'))
  t.ok(methods.size <= 8)
})

t.test('every name passes promtool, and begins with rollcall_ where it is ours', { skip }, async (t) => {
  for (const [name, text] of await metricsOf(service)) {
    const { status, output } = promtool(['check', 'metrics'], text)
    t.equal(`${status} ${output}`, '0 ', name)
    for (const [, metric] of text.matchAll(/^# TYPE (\S+)/gm)) t.match(metric, /^(rollcall|nodejs|process)_/)
  }
})

/** The rules wait for minutes, so this takes four. It runs by hand, with ROLLCALL_BAD_DAY=1. */
const noBadDay = process.env['ROLLCALL_BAD_DAY'] === undefined ? 'ROLLCALL_BAD_DAY is not set' : skip

t.test(
  'the rules fire on a real bad day: a list that stays leased, a storm of logins, an engine that is killed',
  { skip: noBadDay },
  async (t) => {
    const prometheus = await startPrometheus(t, service)
    const list = await createList(service)
    const imported = {
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\na@b.example\n' },
    }
    const create = (options: object) =>
      service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: { ...imported, ...options },
      })
    // As if it had been paused in the middle: the import keeps its list.
    const holder = await create({ begins_at: '2100-01-01T00:00:00Z' })
    await service.collections.imports.updateOne(
      { _id: holder.id },
      { $set: { state: 'paused', paused_from: 'importing', paused_at: new Date(), holds_list: true } },
    )
    const waiting = await create({})
    await service.collections.imports.updateOne(
      { _id: waiting.id },
      { $set: { begins_at: new Date(Date.now() - 2 * 3_600_000) } },
    )
    await until(
      'a scrape of the engine',
      () => prometheus.query('rollcall_engines == 1'),
      (found) => found.length > 0,
    )
    const beganAt = Date.now()
    for (let i = 0; i < 160; i += 1) {
      const session = await FtpSession.connect(service.processes.ftp!.ready.ftp!)
      await session.command('USER api')
      await session.command('PASS not_a_key_at_all_0000')
      session.close()
    }
    await service.processes.engine!.stop('SIGKILL')
    const seen = new Set<string>()
    const wanted = ['RollcallFtpLoginStorm', 'RollcallListStuck', 'RollcallNoEngine', 'RollcallTargetDown']
    await until(
      'the alerts',
      async () => {
        for (const alert of await prometheus.firing()) {
          if (!seen.has(alert))
            t.comment(`${alert} fires after ${Math.round((Date.now() - beganAt) / 1000)} s`)
          seen.add(alert)
        }
        return [...seen]
      },
      () => wanted.every((alert) => seen.has(alert)),
      400_000,
    )
    t.ok(wanted.every((alert) => seen.has(alert)))
    t.match(await prometheus.query(stateOf('engines')), [{ value: [Number, '2'] }])
  },
)
