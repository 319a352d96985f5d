import type { Spread } from '../statistics.ts'
import type { Chart } from './charts.ts'
import type { Report } from './report.ts'
import { isMet, targets, type Target } from './targets.ts'
import {
  capitalize,
  commandOf,
  describe,
  describeVersions,
  particularsOf,
  peaksOf,
  two,
  whole,
  withRange,
} from './text.ts'

/** The page of all results, in Markdown; plots lie beside it, `results/NAME-CHART.svg`. */
export function resultsPage(results: { report: Report; charts: Chart[] }[], names: string[]): string {
  const reports = results.map(({ report }) => report)
  return [
    '# Results',
    '',
    'Made by `npm run bench -- all` from the files in `results/`, each of which a run of one benchmark wrote; what is measured, and how to read it, is said in [README.md](README.md). Figures are medians over the rounds, with the least and the most. Ratios are taken within each round, between contenders that ran one after the other on the same server. `npm run bench -- all --quick` makes such a page in `bench/quick` in about ten minutes, with fewer rows.',
    '',
    ...targetsTable(reports),
    ...withoutResult(reports, names),
    ...results.flatMap(({ report, charts }) => sectionOf(report, charts)),
  ].join('\n')
}

function targetsTable(reports: Report[]): string[] {
  const rows = targets.map((target) => {
    const report = reports.find(({ benchmark }) => benchmark === target.benchmark)
    const found = report === undefined ? null : target.find(report)
    const link = `[${target.benchmark}](#${target.benchmark})`
    const size = report?.work['rows'] ?? report?.result['rows']
    const cells = [
      target.work,
      target.against,
      boundOf(target),
      ...(found === null
        ? ['not measured', '']
        : [withRange(found, (value) => show(value, target)), verdictOn(target, found, size)]),
      `${link}${typeof size === 'number' ? `, ${size.toLocaleString('en')} rows` : ''}`,
    ]
    return row(cells)
  })
  return [
    '## What it is to reach',
    '',
    row(['work', 'against', 'target', 'measured', '', 'benchmark']),
    row(['---', '---', '---:', '---:', '---', '---']),
    ...rows,
    '',
  ]
}

function withoutResult(reports: Report[], names: string[]): string[] {
  const absent = names.filter((name) => reports.every(({ benchmark }) => benchmark !== name))
  return absent.length === 0 ? [] : [`Without a result here: ${absent.join(', ')}.`, '']
}

function verdictOn(target: Target, found: Spread, rows: unknown): string {
  const verdict = isMet(target, found) ? 'met' : '**missed**'
  return Number(rows) < target.rows ? `${verdict}, with fewer rows than it is set for` : verdict
}

const boundOf = (target: Target): string =>
  target.atLeast === undefined
    ? `at most ${show(target.atMost!, target)}`
    : `at least ${show(target.atLeast, target)}`

const show = (value: number, { unit }: Target): string =>
  `${unit.endsWith('x') || unit === ' s' ? two(value) : whole(value)}${unit}`

function sectionOf(report: Report, charts: Chart[]): string[] {
  const { benchmark, summary, at, took_seconds, machine, versions, goals, is_right } = report
  return [
    `## ${benchmark}`,
    '',
    `${capitalize(summary)}.`,
    '',
    `\`${commandOf(report)}\`, ${at.slice(0, 16).replace('T', ' ')} UTC, ${whole(took_seconds)} s. ${describe(machine)}; load average ${machine.load_average_before.toFixed(1)} before, ${machine.load_average_after.toFixed(1)} after. ${describeVersions(versions)}.`,
    '',
    ...(is_right ? [] : ['**A result was wrong: these figures prove nothing.**', '']),
    ...contendersTable(report),
    ...comparisonsTable(report),
    ...particulars(report),
    ...(goals.length === 0
      ? []
      : [...goals.map(({ what, isMet }) => `- ${isMet ? 'met' : '**missed**'}: ${what}`), '']),
    ...charts.flatMap(({ name, title }) => [`![${title}](results/${benchmark}-${name}.svg)`, '']),
    // What a benchmark with a way of its own found out is in what it said.
    ...(report.contenders.length > 0 ? [] : ['```', ...report.transcript, '```', '']),
  ]
}

function contendersTable({ contenders }: Report): string[] {
  if (contenders.length === 0) return []
  const one = (value: number) => value.toFixed(1)
  return [
    row(['', 'rows/s', 'client CPU us/row', 'server CPU us/row', 'peak memory MB']),
    row(['---', '---:', '---:', '---:', '---']),
    ...contenders.map((contender) =>
      row([
        contender.name,
        withRange(contender.rows_per_second, whole),
        withRange(contender.client_us_per_row, one),
        withRange(contender.server_us_per_row, one),
        peaksOf(contender),
      ]),
    ),
    '',
  ]
}

function comparisonsTable({ comparisons }: Report): string[] {
  if (comparisons.length === 0) return []
  return [
    row(['ratio within each round', 'rows/s', 'CPU a row, the other way round']),
    row(['---', '---:', '---:']),
    ...comparisons.map(({ of, to, speed, cpu }) =>
      row([`${of} / ${to}`, withRange(speed, two), withRange(cpu, two)]),
    ),
    '',
  ]
}

function particulars({ contenders }: Report): string[] {
  const told = contenders
    .map((contender) => ({ name: contender.name, what: particularsOf(contender) }))
    .filter(({ what }) => what !== '')
    .map(({ name, what }) => `- ${name}: ${what}`)
  return told.length === 0 ? [] : [...told, '']
}

const row = (cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
