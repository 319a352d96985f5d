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
  'Made by `npm run bench -- all` from `RESULTS.json`, which has the last run of each benchmark. [README.md](README.md) says what is measured and how to read it. Values are medians over the rounds, with the lowest and the highest. Ratios are taken within each round, between contenders that ran one after the other, of some benchmarks each on a new service. Plots and samples of a run are in `results/`, which git ignores.'

/** The page of all results, in Markdown. What most readers want is one table and one plot. */
export function resultsPage(reports: Report[], names: string[]): string {
  const absent = names.filter((name) => reports.every(({ benchmark }) => benchmark !== name))
  const goals = reports.flatMap((report) =>
    goalRows(report).map((cells) => [...cells, `[${report.benchmark}](#${report.benchmark})`]),
  )
  const headlines = reports.flatMap((report) => report.goals.flatMap(headlineRow))
  const commits = Map.groupBy(reports, ({ versions }) => versions['rollcall'])
  const measured = [...commits].map(
    ([version, list]) => `${version}: ${list.map((one) => one.benchmark).join(', ')}`,
  )
  return [
    '# Results',
    '',
    ...markdownTable(['work', 'Rollcall', 'best peer', 'ratio', 'goal', ''], headlines),
    ...drawBars(reports),
    `Measured with Rollcall ${measured.join('; ')}.${absent.length === 0 ? '' : ` Without a result here: ${absent.join(', ')}.`}`,
    '',
    introduction,
    '',
    '## All goals and comparisons',
    '',
    ...markdownTable([...goalHeads, 'benchmark'], goals),
    ...reports.flatMap((report) => [
      ...describeReport(report),
      ...(report.contenders.length > 0 ? [] : ['```', ...report.transcript, '```', '']),
    ]),
  ].join('\n')
}

function headlineRow(goal: Goal): Table {
  const { work, headline, unit, measured } = goal
  if (headline === undefined || measured === null) return []
  const ratio = unit === 'x' ? two(measured.median) : ''
  return [[work, headline.we, headline.peer, ratio, describeBound(goal), verdictOn(goal)]]
}

/** How fast the contenders were whose rows are of one file. */
function drawBars(reports: Report[]): string[] {
  const compared = reports.filter(({ comparisons, goals }) => comparisons.length > 0 && goals.length > 0)
  const rates = compared.flatMap(({ contenders }) => contenders.map((one) => one.rows_per_second.median))
  const lines = compared.flatMap(({ benchmark, contenders }) => [
    `${benchmark}, rows a second`,
    ...contenders.map(({ name, rows_per_second: { median } }) => {
      const bar = '█'.repeat(Math.round((40 * median) / Math.max(...rates)))
      return `  ${name.padEnd(32)} ${bar} ${whole(median)}`
    }),
  ])
  return lines.length === 0 ? [] : ['```text', ...lines, '```', '']
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
  const notes = contenders.flatMap(({ name, version, note }) => {
    const parts = [version, note].filter((part) => part !== undefined)
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
    const { work, against = '', measured } = goal
    const shown = measured === null ? 'not measured' : withRange(measured, showIn(goal))
    return [work, against, describeBound(goal), shown, verdictOn(goal)]
  })

const showIn =
  ({ unit }: Goal) =>
  (value: number): string =>
    (unit === 'x' ? two : value < 100 && !Number.isInteger(value) ? one : whole)(value) + unit

function describeBound(goal: Goal): string {
  const { min, max } = goal
  if (max !== undefined) return `at most ${showIn(goal)(max)}`
  return min === undefined ? '' : `at least ${showIn(goal)(min)}`
}

function verdictOn({ min, max, set_for, size, measured }: Goal): string {
  if (measured === null || (min === undefined && max === undefined)) return ''
  const isMet = measured.median >= (min ?? -Infinity) && measured.max <= (max ?? Infinity)
  const verdict = isMet ? 'met' : '**missed**'
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
