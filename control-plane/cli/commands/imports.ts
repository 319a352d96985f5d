import { once } from 'node:events'
import { messageOf } from '../../../shared/contract/errors.ts'
import type { ImportView } from '../api-client.ts'
import { CommandFailure } from '../failures.ts'
import type { Session } from '../session.ts'
import { columnsOf, printable, printableLines, styledFor, table } from '../terminal.ts'
import { watchImport } from '../watch.ts'

interface ImportSummary extends Pick<ImportView, 'id' | 'state' | 'begins_at' | 'mailing_list_name'> {
  file_source: { filename: string }
  stats: { number_of_records: number | null; records_imported: number }
}

export async function listImports(
  session: Session,
  options: { scope?: string; list?: number; json?: true },
): Promise<number> {
  const { client, terminal } = session
  const path = options.list === undefined ? '' : `/mailing_lists/${options.list}`
  const query = options.scope === undefined ? '' : `?scope=${encodeURIComponent(options.scope)}`
  const imports = await Array.fromAsync(client.list<ImportSummary>(`${path}/subscriber_imports${query}`))
  if (options.json === true) {
    session.print(imports)
    return 0
  }
  terminal.out.write(
    table(
      ['id', 'state', 'records', 'of', 'begins at', 'list', 'file'],
      imports.map((view) => [
        view.id,
        view.state,
        view.stats.records_imported,
        view.stats.number_of_records,
        view.begins_at,
        view.mailing_list_name,
        view.file_source.filename,
      ]),
      { width: columnsOf(terminal.out), style: styledFor(terminal, terminal.out) },
    ),
  )
  return 0
}

export async function showImport(
  session: Session,
  id: number,
  options: { watch?: true; json?: true },
): Promise<number> {
  if (options.watch === true) {
    const end = await watchToItsEnd(session, id, options.json === true)
    if (typeof end === 'number') return end
    if (options.json !== true) printSummary(session, end)
    return exitCodeOf(end)
  }
  const view = await session.client.get<ImportView>(`/subscriber_imports/${id}`)
  if (options.json === true) session.print(view)
  else printSummary(session, view)
  return 0
}

export async function moveImport(
  session: Session,
  move: 'pause' | 'unpause' | 'cancel',
  id: number,
  options: { json?: true },
): Promise<number> {
  const view = await session.client.post<ImportView>(`/subscriber_imports/${id}/${move}`)
  if (options.json === true) session.print(view)
  else session.say(`Import ${id} is ${view.state}.`)
  return 0
}

/** A log, as it comes; on a terminal its control characters are spelled. */
export async function printLog(
  { client, terminal }: Session,
  id: number,
  kind: string,
  options: { safe?: true },
): Promise<number> {
  const query = options.safe === true ? '?safe=true' : ''
  const { body, charset } = await client.text(
    `/subscriber_imports/${id}/logs/${encodeURIComponent(kind)}${query}`,
  )
  const pieces = terminal.out.isTTY ? printableLines(body, charset) : (body as AsyncIterable<Buffer>)
  try {
    for await (const piece of pieces) if (!terminal.out.write(piece)) await once(terminal.out, 'drain')
  } catch (error) {
    throw new CommandFailure(`the log broke off before its end: ${messageOf(error)}`)
  }
  return 0
}

/** 3 where it finished and every row failed, so that scripts don't take it for a success. */
export function exitCodeOf({ state, stats }: ImportView): number {
  if (state !== 'finished') return 1
  return stats.records_imported > 0 && stats.subscribers['failed'] === stats.records_imported ? 3 : 0
}

/** As shells have it. */
const endedBySigpipe = 141

/** The end, or 130 where Ctrl-C came before. */
export async function watchToItsEnd(
  session: Session,
  id: number,
  isJson: boolean,
): Promise<ImportView | number> {
  const { client, terminal, print } = session
  const interrupted = new AbortController()
  const onInterrupt = () => interrupted.abort()
  process.on('SIGINT', onInterrupt)
  // For good: that nobody read the last view is told only after this function has ended.
  session.exitCodeUnread = endedBySigpipe
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
    terminal.err.write(
      `Import ${id} goes on. Look at it with: rollcall imports ${id}, or follow it with: rollcall imports ${id} --watch\n`,
    )
    return 130
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

export function printSummary({ terminal }: Session, view: ImportView): void {
  const { out, err } = terminal
  const style = styledFor(terminal, out)
  const { number_of_records: total, records_imported: done } = view.stats
  const colour = ({ finished: 'green', failed: 'red' } as const)[view.state] ?? 'yellow'
  const dry = view.dry_run ? ' (a dry run: nothing was written)' : ''
  const count = (value: number | null): string => (value === null ? '?' : value.toLocaleString('en'))
  out.write(
    `Import ${view.id} is ${style(colour, view.state)}: ${count(done)} of ${count(total)} records${dry}\n`,
  )
  for (const [kind, amount] of Object.entries(view.stats.subscribers)) {
    if (amount === 0) continue
    const hint = kind === 'failed' ? `   rollcall logs ${view.id} failed` : ''
    out.write(`  ${kind.padEnd(22)}${count(amount).padStart(12)}${hint}\n`)
  }
  if (view.error_message !== null)
    err.write(`${style('red', 'rollcall:')} ${printable(view.error_message)}\n`)
  for (const warning of view.warnings) err.write(`${style('yellow', 'warning:')} ${printable(warning)}\n`)
}
