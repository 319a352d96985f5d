import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os'
import path from 'node:path'

/** Where a benchmark ran, and with what. */
export interface Machine {
  cpu: string
  /** That this process may use. */
  cores: number
  memory_gb: number
  system: string
  /** Of the last minute. */
  load_average_before: number
  load_average_after: number
}

export function describeMachine(): Machine {
  const load = loadAverage()
  return {
    cpu: `${cpus()[0]?.model.trim() ?? 'unknown'}${generation()}`,
    cores: availableParallelism(),
    memory_gb: Math.round(totalmem() / 1e9),
    system: `${platform()} ${release()} ${arch()}`,
    load_average_before: load,
    load_average_after: load,
  }
}

/** ` (family 26, model 2)` where the system tells it: hypervisors give several generations of processors one name. */
function generation(): string {
  try {
    const text = readFileSync('/proc/cpuinfo', 'utf8')
    const numberOf = (field: string) => new RegExp(`^${field}\\s*: (\\d+)$`, 'm').exec(text)?.[1]
    const [family, model] = [numberOf('cpu family'), numberOf('model')]
    return family === undefined || model === undefined ? '' : ` (family ${family}, model ${model})`
  } catch {
    return ''
  }
}

export const loadAverage = (): number => loadavg()[0]!

/** What is used of others, by the file that fixes it. */
export function versions(): Record<string, string> {
  const ours = read('../package.json') as { version: string; dependencies: Record<string, string> }
  return {
    rollcall: `${ours.version}${commit()}`,
    node: process.versions.node,
    'mongodb driver': (read('../node_modules/mongodb/package.json') as { version: string }).version,
    'csv-parse': (read('../node_modules/csv-parse/package.json') as { version: string }).version,
  }
}

/** ` (1a2b3c4)`, with a `+` where what runs differs from that commit; nothing outside of a checkout. */
function commit(): string {
  const git = (...args: string[]): string =>
    execFileSync('git', args, {
      cwd: path.join(import.meta.dirname, '..'),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  try {
    // Results aren't what runs, and each benchmark of `all` leaves some for the next.
    const changed = git('status', '--porcelain', '--', '.', ':!bench/results', ':!bench/RESULTS.md')
    return ` (${git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : '+'})`
  } catch {
    return ''
  }
}

const read = (file: string): unknown => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))
