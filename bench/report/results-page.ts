import type { Scenario, Target } from '../scenario.ts'
import type { Spread } from '../statistics.ts'
import type { Report } from './report.ts'
import {
  capitalize,
  contenderNotes,
  describeLoad,
  describeMachine,
  describeVersions,
  formatCommand,
  tablesFor,
  two,
  whole,
  withRange,
  type Table,
} from './text.ts'

const introduction =
  'Made by `npm run bench -- all` from `RESULTS.json`, which has the last run of each benchmark. [README.md](README.md) says what is measured and how to read it. Values are medians over the rounds, with the lowest and the highest. Ratios are taken within each round, between contenders that ran one after the other on the same server. Plots and samples of a run are in `results/`, which git ignores. `npm run bench -- all --quick` makes such a page in `bench/quick` with fewer rows.'

/** The page of all results, in Markdown. */
export function resultsPage(reports: Report[], scenarios: Scenario[]): string {
  const absent = scenarios.filter(({ name }) => reports.every(({ benchmark }) => benchmark !== name))
  return [
    '# Results',
    '',
    introduction,
    '',
    '## What it is to reach',
    '',
    ...markdownTable([
      ['work', 'against', 'target', 'measured', '', 'benchmark'],
      ...scenarios.flatMap(({ name, targets = [] }) => {
        const report = reports.find(({ benchmark }) => benchmark === name)
        return targets.map((target) => targetRow(target, name, report))
      }),
    ]),
    ...(absent.length === 0
      ? []
      : [`Without a result here: ${absent.map(({ name }) => name).join(', ')}.`, '']),
    ...reports.flatMap((report) => [
      ...describeReport(report),
      ...(report.contenders.length > 0 ? [] : ['```', ...report.transcript, '```', '']),
    ]),
  ].join('\n')
}

function targetRow(target: Target, name: string, report: Report | undefined): string[] {
  const { work, against, min, max, unit } = target
  const show = (value: number) => `${unit === 'x' || unit === ' s' ? two(value) : whole(value)}${unit}`
  const bound = max === undefined ? `at least ${show(min ?? 0)}` : `at most ${show(max)}`
  const found = report === undefined ? null : target.find(report)
  const rows = report?.work['rows']
  return [
    work,
    against,
    bound,
    found === null ? 'not measured' : withRange(found, show),
    found === null ? '' : verdictOn(target, found, Number(rows)),
    `[${name}](#${name})${typeof rows === 'number' ? `, ${whole(rows)} rows` : ''}`,
  ]
}

function verdictOn(
  { min = -Infinity, max = Infinity, rows: setFor = 0 }: Target,
  found: Spread,
  rows: number,
) {
  const verdict = found.median >= min && found.max <= max ? 'met' : '**missed**'
  return rows < setFor ? `${verdict}, with fewer rows than it is set for` : verdict
}

/** A report without what it printed, in Markdown. */
export function describeReport(report: Report): string[] {
  const { benchmark, summary, at, took_seconds, machine, versions, goals, is_right } = report
  const about = `${at.slice(0, 16).replace('T', ' ')} UTC, ${took_seconds} s. ${describeMachine(machine)}; ${describeLoad(machine)}`
  const notes = contenderNotes(report).map(({ name, note }) => `- ${name}: ${note}`)
  const verdicts = goals.map(({ what, isMet }) => `- ${isMet ? 'met' : '**missed**'}: ${what}`)
  return [
    `## ${benchmark}`,
    '',
    `${capitalize(summary)}.`,
    '',
    `\`${formatCommand(report)}\`, ${about}. ${describeVersions(versions)}.`,
    '',
    ...(is_right ? [] : ['**A result was wrong: this run proves nothing.**', '']),
    ...tablesFor(report).flatMap(markdownTable),
    ...[notes, verdicts].flatMap((list) => (list.length === 0 ? [] : [...list, ''])),
  ]
}

function markdownTable([heads = [], ...rows]: Table): string[] {
  const formatRow = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [formatRow(heads), formatRow(heads.map(() => '---')), ...rows.map(formatRow), '']
}
