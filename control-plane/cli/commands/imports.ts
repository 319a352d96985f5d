import { once } from 'node:events'
import { errorMessage } from '../../../shared/contract/errors.ts'
import type { ImportView } from '../api-client.ts'
import { inCommandTerms } from '../command-terms.ts'
import { exitCodes } from '../exit-codes.ts'
import { CommandFailure } from '../failures.ts'
import type { Session } from '../session.ts'
import { terminalWidth, printable, printableLines, styledFor, table } from '../terminal.ts'
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
    return exitCodes.done
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
      { width: terminalWidth(terminal.out), style: styledFor(terminal, terminal.out) },
    ),
  )
  return exitCodes.done
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
    return endExitCode(end)
  }
  const view = await session.client.get<ImportView>(`/subscriber_imports/${id}`)
  if (options.json === true) session.print(view)
  else printSummary(session, view)
  return exitCodes.done
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
  return exitCodes.done
}

/** Streams a log to standard output. On a terminal its control characters are escaped. */
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
  const pieces: AsyncIterable<string | Buffer> = terminal.out.isTTY ? printableLines(body, charset) : body
  try {
    for await (const piece of pieces) if (!terminal.out.write(piece)) await once(terminal.out, 'drain')
  } catch (error) {
    throw new CommandFailure(`the log broke off before its end: ${errorMessage(error)}`)
  }
  return exitCodes.done
}

/** A finished import of which every row failed has a code of its own, so that scripts don't take it for a success. */
export function endExitCode({ state, stats }: ImportView): number {
  if (state !== 'finished') return exitCodes.failed
  const everyRowFailed = stats.records_imported > 0 && stats.subscribers['failed'] === stats.records_imported
  return everyRowFailed ? exitCodes.everyRowFailed : exitCodes.done
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
    terminal.err.write(
      `Import ${id} continues. Show it with: rollcall imports ${id}, or follow it with: rollcall imports ${id} --watch\n`,
    )
    return exitCodes.interrupted
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
  for (const warning of view.warnings)
    err.write(`${style('yellow', 'warning:')} ${printable(inCommandTerms(warning))}\n`)
}
