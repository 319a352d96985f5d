import type { Goal } from '../scenario.ts'
import type { Report } from './report.ts'
import {
  alignColumns,
  capitalize,
  describeMachine,
  describePeaks,
  one,
  plural,
  two,
  whole,
  withRange,
  type Table,
} from './text.ts'

const introduction =
  'Made by `npm run bench -- all` from `RESULTS.json`, which has the last run of each benchmark. [README.md](README.md) says what is measured and how to read it. Values are medians over the rounds, with the lowest and the highest. Ratios are taken within each round, between contenders that ran one after the other, of some benchmarks each on a new service. Plots and samples of a run are in `results/`, which git ignores. `npm run bench -- all --quick` makes such a page in `bench/quick` with fewer rows.'

/** The page of all results, in Markdown. */
export function resultsPage(reports: Report[], names: string[]): string {
  const absent = names.filter((name) => reports.every(({ benchmark }) => benchmark !== name))
  const goals = reports.flatMap((report) =>
    goalRows(report).map((cells) => [...cells, `[${report.benchmark}](#${report.benchmark})`]),
  )
  return [
    '# Results',
    '',
    introduction,
    '',
    '## What it is to reach',
    '',
    ...markdownTable([...goalHeads, 'benchmark'], goals),
    ...(absent.length === 0 ? [] : [`Without a result here: ${absent.join(', ')}.`, '']),
    ...reports.flatMap((report) => [
      ...describeReport(report),
      ...(report.contenders.length > 0 ? [] : ['```', ...report.transcript, '```', '']),
    ]),
  ].join('\n')
}

/** A report without its goals and what it printed, in Markdown. */
export function describeReport(report: Report): string[] {
  const { benchmark, summary, work, at, took_seconds, machine, versions, is_right } = report
  const options = Object.entries(work).map(([name, value]) => ` --${name} ${value}`)
  const load = `load average ${one(machine.load_average_before)} before, ${one(machine.load_average_after)} after`
  const programs = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  return [
    `## ${benchmark}`,
    '',
    `${capitalize(summary)}.`,
    '',
    `\`npm run bench -- ${benchmark}${options.join('')}\`, ${at.slice(0, 16).replace('T', ' ')} UTC, ${took_seconds} s. ${describeMachine(machine)}; ${load}. ${programs.join(', ')}.`,
    '',
    ...(is_right ? [] : ['**A result was wrong: this run proves nothing.**', '']),
    ...describeContenders(report),
  ]
}

/** The medians of all contenders, how the first compares with the others, and what each leaves out. */
function describeContenders({ contenders, comparisons, unit }: Report): string[] {
  const medians = contenders.map((contender) => [
    contender.name,
    withRange(contender.rows_per_second, whole),
    contender.client_us_per_row.max === 0 ? '' : withRange(contender.client_us_per_row, one),
    withRange(contender.server_us_per_row, one),
    describePeaks(contender.peak_memory_mb),
  ])
  const compared = comparisons.map(({ of, to, speed, cpu }) => [
    `${of} / ${to}`,
    withRange(speed, two),
    withRange(cpu, two),
  ])
  const notes = contenders.flatMap(({ name, version, settings = {}, note }) => {
    const shown = Object.entries(settings).map(([key, value]) => `${key.replaceAll('_', ' ')} ${value}`)
    const parts = [version, ...shown, note].filter((part) => part !== undefined)
    return parts.length === 0 ? [] : [`- ${name}: ${parts.join('; ')}`]
  })
  const short = (value: number) => (value < 100 ? two : whole)(value)
  const found = contenders.flatMap((contender) =>
    contender.found.map(({ what, count, ...values }) => {
      return [contender.name, what, withRange(values, short), String(count)]
    }),
  )
  const rate = `${plural(unit)}/s`
  const heads = [rate, `client CPU us/${unit}`, `server CPU us/${unit}`, 'peak memory MB']
  return [
    ...markdownTable(['', ...heads], medians),
    ...markdownTable(['ratio within each round', rate, `CPU a ${unit}, inverted`], compared),
    ...markdownTable(['', 'found', 'median', 'of'], found),
    ...(notes.length === 0 ? [] : [...notes, '']),
  ]
}

const goalHeads = ['work', 'against', 'target', 'measured', '']

export const describeGoals = (report: Report): string[] => markdownTable(goalHeads, goalRows(report))

const goalRows = ({ goals }: Report): Table =>
  goals.map((goal) => {
    const { work, against = '', min = 0, max, unit, measured } = goal
    const show = (value: number) =>
      (unit === 'x' ? two : value < 100 && !Number.isInteger(value) ? one : whole)(value) + unit
    const bound = max === undefined ? `at least ${show(min)}` : `at most ${show(max)}`
    return [
      work,
      against,
      bound,
      measured === null ? 'not measured' : withRange(measured, show),
      verdictOn(goal),
    ]
  })

function verdictOn({ min = -Infinity, max = Infinity, by_median, set_for, size, measured }: Goal): string {
  if (measured === null) return ''
  const highest = by_median === true ? measured.median : measured.max
  const verdict = measured.median >= min && highest <= max ? 'met' : '**missed**'
  if (set_for === undefined || size === undefined || size === set_for) return verdict
  return `${verdict} with ${whole(size)}, set for ${whole(set_for)}`
}

/** Nothing without rows. */
function markdownTable(heads: string[], rows: Table): string[] {
  if (rows.length === 0) return []
  const cells = [heads, heads.map(() => '---'), ...rows].map((row) =>
    row.map((cell) => cell.replaceAll('|', '\\|')),
  )
  return [...alignColumns(cells, ' | ').map((line) => `| ${line} |`), '']
}
