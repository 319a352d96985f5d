import type { Machine } from '../machine.ts'
import type { Outcome } from '../scenario.ts'

/** One run, as `--json` writes it. */
export interface Report extends Particulars, Required<Omit<Outcome, 'mongodb' | 'rows'>> {
  /** Grows when a field changes its meaning or is removed. */
  format: 4
  /** When it ended, ISO 8601. */
  at: string
  took_seconds: number
}

/** What is known before the run. */
interface Particulars {
  benchmark: string
  summary: string
  /** Its options: rows, rounds, seed and the like. */
  work: Record<string, string | number>
  machine: Machine
  versions: Record<string, string>
  /** What it printed. */
  transcript: string[]
}

export function makeReport(
  { startedAt, ...particulars }: Particulars & { startedAt: number },
  { mongodb, rows, ...outcome }: Outcome,
): Report {
  const contenders = outcome.contenders ?? []
  const programs: Record<string, string> = {}
  for (const [program, version] of contenders.map((one) => one.version?.split(' ') ?? []))
    if (program !== undefined && version !== undefined) programs[program] = version
  return {
    format: 4,
    ...particulars,
    at: new Date().toISOString(),
    took_seconds: Math.round((performance.now() - startedAt) / 1000),
    work: { ...(rows === undefined ? {} : { rows }), ...particulars.work },
    versions: { ...particulars.versions, 'mongodb server': mongodb, ...programs },
    unit: 'row',
    comparisons: [],
    goals: [],
    latencies: [],
    result: {},
    ...outcome,
    contenders,
  }
}

/** The report with the numbers of its tables only: no samples, no distributions. */
export function withoutSamples(report: Report): Report {
  const contenders = report.contenders.map((one) => ({ ...one, rounds: [] }))
  // Tables show a comparison; what other scenarios found is in what they printed.
  const transcript = contenders.length === 0 ? report.transcript : []
  return { ...report, contenders, transcript, latencies: [], result: {} }
}

/** Measurements have four significant digits, six above 1,000; whole numbers stay. */
export function compactJson(report: Report): string {
  const round = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value)
      ? Number(value.toPrecision(Math.abs(value) >= 1_000 ? 6 : 4))
      : value
  return `${JSON.stringify(report, round)}\n`
}
