import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os'
import path from 'node:path'

/** Where a benchmark ran. */
export interface Machine {
  cpu: string
  /** Cores that this process may use. */
  cores: number
  memory_gb: number
  system: string
  /** Mean of the last minute. */
  load_average_before: number
  load_average_after: number
}

export function readMachine(): Machine {
  const load = loadAverage()
  return {
    cpu: `${cpus()[0]?.model.trim() ?? 'unknown'}${readGeneration()}`,
    cores: availableParallelism(),
    memory_gb: Math.round(totalmem() / 1e9),
    system: `${platform()} ${release()} ${arch()}`,
    load_average_before: load,
    load_average_after: load,
  }
}

/** ` (family 26, model 2)` on Linux: hypervisors give several generations of processors one name. */
function readGeneration(): string {
  const text = platform() === 'linux' ? readFileSync('/proc/cpuinfo', 'utf8') : ''
  const [, family, model] = /^cpu family\s*: (\d+)\nmodel\s*: (\d+)$/m.exec(text) ?? []
  return family === undefined ? '' : ` (family ${family}, model ${model})`
}

export const loadAverage = (): number => loadavg()[0] ?? 0

/** What runs, and with which versions of others. */
export function versions(): Record<string, string> {
  return {
    rollcall: `${packageVersion('.')}${readCommit()}`,
    node: process.versions.node,
    'mongodb driver': packageVersion('node_modules/mongodb'),
    'csv-parse': packageVersion('node_modules/csv-parse'),
  }
}

const root = path.join(import.meta.dirname, '..')

function packageVersion(folder: string): string {
  const text = readFileSync(path.join(root, folder, 'package.json'), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

const measuredPaths = [
  'engine',
  'control-plane',
  'ftp',
  'shared',
  'bench',
  'package-lock.json',
  ':!bench/*.md',
  ':!bench/*.json',
]

/** ` (1a2b3c4)`: the last commit that changed what is measured, with a `+` when files differ; empty without git. */
function readCommit(): string {
  const git = (...args: string[]) =>
    spawnSync('git', [...args, '--', ...measuredPaths], { cwd: root, encoding: 'utf8' }).stdout.trim()
  const commit = git('log', '-1', '--format=%h')
  return commit === '' ? '' : ` (${commit}${git('status', '--porcelain') === '' ? '' : '+'})`
}
