import { spawn, spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { missing } from './missing-programs.ts'
import { until, type Json, type Service } from './service.ts'

/** Debian's `prometheus`; false, or why tests that need it are skipped. */
export const prometheusMissing = missing('prometheus', 'promtool')

export const monitoringFolder = fileURLToPath(new URL('../../docs/monitoring/', import.meta.url))
export const ruleFiles = ['recording-rules.yml', 'alert-rules.yml'].map((name) =>
  path.join(monitoringFolder, 'prometheus', name),
)

interface Rule {
  record?: string
  alert?: string
  expr: string
  for?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

export async function readRules(): Promise<Rule[]> {
  const files = await Promise.all(ruleFiles.map((file) => readFile(file, 'utf8')))
  return files.flatMap((text) => {
    const { groups }: { groups: { rules: Rule[] }[] } = parse(text)
    return groups.flatMap(({ rules }) => rules)
  })
}

export function promtool(args: string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

interface Prometheus {
  /** The result of an instant query. */
  query: (expr: string) => Promise<Json[]>
  /** Names of the alerts that fire now. */
  firing: () => Promise<string[]>
  get: (path: string) => Promise<Json>
}

/** A real server with the rules as they are, which scrapes the service's processes every second; gone at teardown. */
export async function startPrometheus(t: Test, service: Service): Promise<Prometheus> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-prometheus-'))
  const port = await freePort()
  const jobs = Object.entries(service.processes).map(([name, running]) => ({
    job_name: `rollcall-${name}`,
    static_configs: [{ targets: Object.values(running.ready.metrics).map((url) => new URL(url).host) }],
  }))
  // YAML is a superset of JSON.
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ruleFiles,
    scrape_configs: jobs,
  }
  await writeFile(path.join(folder, 'prometheus.yml'), JSON.stringify(config))
  const child = spawn(
    'prometheus',
    [
      `--config.file=${path.join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${path.join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: 'ignore' },
  )
  const ended = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  const get = async (path: string): Promise<Json> => {
    const reply: Json = await (await fetch(`http://127.0.0.1:${port}${path}`)).json()
    if (reply.status !== 'success') throw new Error(`${path}: ${reply.error}`)
    return reply.data
  }
  await until(
    'Prometheus',
    () =>
      fetch(`http://127.0.0.1:${port}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      ),
    (isReady) => isReady,
  )
  return {
    get,
    query: async (expr) => (await get(`/api/v1/query?query=${encodeURIComponent(expr)}`)).result,
    firing: async () =>
      (await get('/api/v1/alerts')).alerts
        .filter((alert: Json) => alert.state === 'firing')
        .map((alert: Json) => alert.labels.alertname),
  }
}
