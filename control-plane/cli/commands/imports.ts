import { once } from 'node:events'
import { errorMessage } from '../../../shared/contract/errors.ts'
import type { ImportView } from '../../resources/subscriber-imports/schemas.ts'
import { inCommandTerms } from '../command-terms.ts'
import { exitCodes } from '../exit-codes.ts'
import { CommandFailure } from '../failures.ts'
import type { Session } from '../session.ts'
import { findList } from '../mailing-list.ts'
import {
  terminalWidth,
  printable,
  printableLines,
  styledFor,
  writeSentence,
  writeTable,
  type Style,
  type Terminal,
} from '../terminal.ts'
import { watchImport } from '../watch.ts'
import { warn } from './columns.ts'

export async function listImports(
  session: Session,
  options: { scope?: string; state?: string; list?: string; json?: true },
): Promise<void> {
  const { client, terminal } = session
  const path = options.list === undefined ? '' : `/mailing_lists/${(await findList(client, options.list)).id}`
  const { scope, state } = options
  const query = new URLSearchParams({
    ...(scope === undefined ? {} : { scope }),
    ...(state === undefined ? {} : { state }),
  })
  // Only full views have counts.
  if (options.json !== true) query.set('view', 'full')
  const listed = client.list<ImportView>(`${path}/subscriber_imports?${query.toString()}`)
  const imports = await Array.fromAsync(listed)
  if (options.json === true) {
    session.print(imports)
    return
  }
  const rows = imports.map((view) => [
    view.id,
    view.dry_run ? `${view.state} (dry run)` : view.state,
    view.stats.records_imported,
    view.stats.number_of_records,
    view.stats.subscribers.failed,
    view.begins_at,
    view.mailing_list_name,
    view.file_source.filename,
  ])
  const header = ['id', 'state', 'records', 'of', 'failed', 'begins at', 'list', 'file']
  writeTable(terminal, terminal.out, header, rows)
}

export async function showImport(
  session: Session,
  id: number,
  options: { watch?: true; failOn?: number; json?: true },
): Promise<number> {
  const isJson = options.json === true
  if (options.watch === true) {
    const end = await watchToItsEnd(session, id, isJson)
    if (typeof end === 'number') return end
    printEnd(session, end, { isJson })
    return endExitCode(end, options.failOn)
  }
  const view = await session.client.get<ImportView>(`/subscriber_imports/${id}`)
  if (isJson) session.print(view)
  else {
    sayState(session, view)
    printCounts(session.terminal, session.terminal.out, view)
    printWarnings(session.terminal, view)
    sayNext(session.terminal.out, view)
  }
  return exitCodes.done
}

export async function moveImport(
  session: Session,
  move: 'pause' | 'unpause' | 'cancel',
  id: number,
  options: { json?: true },
): Promise<void> {
  const view = await session.client.post<ImportView>(`/subscriber_imports/${id}/${move}`)
  if (options.json === true) session.print(view)
  else session.say(`Import ${id} is ${view.state}.`)
}

/** Streams a log to standard output. On a terminal its control characters are escaped. */
export async function printLog(
  { client, terminal }: Session,
  id: number,
  kind: string,
  options: { safe?: true },
): Promise<void> {
  const query = options.safe === true ? '?safe=true' : ''
  const { body, charset } = await client.text(
    `/subscriber_imports/${id}/logs/${encodeURIComponent(kind)}${query}`,
  )
  const pieces: AsyncIterable<string | Buffer> = terminal.out.isTTY
    ? printableLines(body, { charset, width: terminalWidth(terminal.out) })
    : body
  try {
    for await (const piece of pieces) if (!terminal.out.write(piece)) await once(terminal.out, 'drain')
  } catch (error) {
    throw new CommandFailure(`the log broke off before its end: ${errorMessage(error)}`)
  }
}

/**
 * A finished import of which every row failed, or more percent than `failOn`, has a code of its own, so that scripts
 * don't take it for a success.
 */
export function endExitCode({ state, stats }: ImportView, failOn = 100): number {
  if (state !== 'finished') return exitCodes.failed
  const { records_imported: rows, subscribers } = stats
  const { failed } = subscribers
  const isEveryRow = rows > 0 && failed === rows
  // In whole numbers, because 0.57 % of 10,000 rows is 56.99999999999999 in floating point.
  const isAbove = failed * 10_000 > Math.round(failOn * 100) * rows
  return isEveryRow || isAbove ? exitCodes.rowsFailed : exitCodes.done
}

/** Resolves to the import's last view, or to an exit code when Ctrl-C came first. */
export async function watchToItsEnd(
  session: Session,
  id: number,
  isJson: boolean,
): Promise<ImportView | number> {
  const { client, terminal, print } = session
  const interrupted = new AbortController()
  const onInterrupt = () => interrupted.abort()
  process.on('SIGINT', onInterrupt)
  // It stays set, because a missing reader of the last view is noticed only after this function has ended.
  session.exitCodeUnread = exitCodes.brokenPipe
  try {
    return await watchImport(client, id, {
      title: `import ${id}`,
      out: terminal.err,
      hasColours: terminal.hasColours,
      signal: interrupted.signal,
      ...(isJson ? { onView: print } : {}),
    })
  } catch (error) {
    if (!interrupted.signal.aborted) throw error
    writeSentence(
      terminal.err,
      `Import ${id} continues. Show it with: rollcall imports ${id}, or follow it with: rollcall imports ${id} --watch`,
    )
    return exitCodes.interrupted
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

/** The end of a watched import: its state on standard output, its counts and faults on standard error. */
export function printEnd(session: Session, view: ImportView, { isJson }: { isJson: boolean }): void {
  if (!isJson) sayState(session, view)
  printCounts(session.terminal, session.terminal.err, view)
  printWarnings(session.terminal, view)
  sayNext(session.terminal.err, view)
}

const count = (value: number | null): string => (value === null ? '?' : value.toLocaleString('en'))

/** Says in words what became of the import, and what can be done next. */
function sayState({ terminal }: Session, view: ImportView): void {
  const { number_of_records: total, records_imported: done } = view.stats
  const colour = ({ finished: 'green', failed: 'red' } as Record<string, Style>)[view.state] ?? 'yellow'
  const state = styledFor(terminal, terminal.out)(colour, view.state)
  const dry = view.dry_run ? ' (a dry run: nothing was written)' : ''
  const { type, filename } = view.file_source
  // Inline content without a name of its own is called so.
  const file = type === 'json' && filename === 'data' ? '' : (filename ?? '')
  const source = file === '' ? '' : ` of ${printable(file)}`
  writeSentence(
    terminal.out,
    `Import ${view.id} is ${state}: ${count(done)} of ${count(total)} records${source} into ${printable(view.mailing_list_name)}${duration(view)}${dry}`,
  )
}

/** How long an ended import took, and how fast it was. The API's times are in whole seconds. */
function duration({ begins_at, started_at, finished_at, stats }: ImportView): string {
  if (finished_at === null) return ''
  const seconds = (Date.parse(finished_at) - Date.parse(started_at ?? begins_at)) / 1000
  if (seconds < 1) return ' in less than a second'
  return ` in ${seconds} s, ${count(Math.round(stats.records_imported / seconds))} rows/s`
}

/** From this share on, the rows that existed already are most likely meant to be overwritten. */
const nearlyAll = 0.9

function sayNext(stream: NodeJS.WriteStream, view: ImportView): void {
  const { records_imported: rows, subscribers } = view.stats
  const { failed, skipped_overwrite: kept } = subscribers
  if (kept > 0 && kept >= nearlyAll * rows)
    writeSentence(
      stream,
      `${count(kept)} of ${count(rows)} rows are on the list already and were left as they are: import the file again with --overwrite to change them`,
    )
  if (failed > 0)
    writeSentence(
      stream,
      `The failed rows, to be corrected and imported again: rollcall logs ${view.id} failed > ${view.id}.csv${
        view.file_format.csv_has_headers
          ? ''
          : ' (with --no-headers, and ,- at the end of --map, as their last column has the reasons)'
      }`,
    )
  else if (view.state === 'finished' && view.dry_run && rows > 0)
    writeSentence(stream, 'No row would fail: import the file without --dry-run')
  else if (view.state === 'finished' && rows > 0)
    writeSentence(stream, `Show the subscribers with: rollcall subscribers ${view.mailing_list_id}`)
  else if (['failed', 'cancelled'].includes(view.state) && !view.dry_run && rows > 0)
    writeSentence(stream, 'What was written stays: import the file again for the rest of it')
}

/** Prints a table of the counts and one of the reasons why rows failed. */
function printCounts(terminal: Terminal, stream: NodeJS.WriteStream, view: ImportView): void {
  const counts = Object.entries(view.stats.subscribers).filter(([, amount]) => amount > 0)
  if (counts.length > 0) writeTable(terminal, stream, ['result', 'rows'], counts)
  const faults = view.failure_summary.map(
    ({ column, header, field, reason, rows, first_record: record, example }) => [
      rows,
      column,
      header ?? field,
      inCommandTerms(reason),
      record,
      example,
    ],
  )
  if (faults.length > 0)
    writeTable(terminal, stream, ['failed', 'column', 'header', 'reason', 'record', 'example'], faults)
}

function printWarnings(terminal: Terminal, view: ImportView): void {
  const { err } = terminal
  if (view.error_message !== null)
    writeSentence(
      err,
      `${styledFor(terminal, err)('red', 'rollcall:')} ${printable(inCommandTerms(view.error_message))}`,
    )
  for (const warning of view.warnings) warn(terminal, inCommandTerms(warning))
}
