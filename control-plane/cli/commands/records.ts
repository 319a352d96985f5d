import { createInterface } from 'node:readline'
import { usage } from '../failures.ts'
import type { Session } from '../session.ts'
import { ask, columnsOf, printable, styledFor, table, type Terminal } from '../terminal.ts'

/** Organizations, lists, fields, keys and users: created, and listed. */

type RecordView = Record<string, unknown>

export async function createRecord(
  session: Session,
  path: string,
  body: Record<string, RecordView>,
  options: { json?: true },
): Promise<number> {
  const created = await session.client.post<RecordView>(path, body)
  if (options.json === true) session.print(created)
  else printRecord(session.terminal, created)
  return 0
}

export async function listRecords(
  session: Session,
  path: string,
  columns: string[],
  options: { json?: true },
): Promise<number> {
  const records = await Array.fromAsync(session.client.list<RecordView>(path))
  if (options.json === true) session.print(records)
  else {
    const { out } = session.terminal
    const rows = records.map((record) => columns.map((column) => shown(record[column])))
    out.write(table(columns, rows, { width: columnsOf(out), style: styledFor(session.terminal, out) }))
  }
  return 0
}

/** A name and a value a line; nothing is cut, since a key is shown only once. */
function printRecord({ out }: Terminal, record: RecordView): void {
  const entries = Object.entries(record).filter(([, value]) => value !== null)
  const width = Math.max(...entries.map(([name]) => name.length))
  for (const [name, value] of entries)
    out.write(`${name.padEnd(width)}  ${printable(String(shown(value)))}\n`)
}

function shown(value: unknown): string | number | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return value
  if (typeof value === 'string') return value
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : JSON.stringify(value)
}

/** Of a new user: the first line of standard input, or what is typed twice; never an argument, which others can see. */
export async function readPassword(terminal: Terminal, fromInput: boolean): Promise<string> {
  if (fromInput) return firstLine(terminal.input)
  if (!terminal.input.isTTY || !terminal.err.isTTY)
    throw usage('the password is asked for on a terminal; in a script, pipe it in with --password-stdin')
  const password = await ask(terminal, 'Password: ', { isSecret: true })
  if ((await ask(terminal, 'The same again: ', { isSecret: true })) !== password)
    throw usage('the two passwords differ')
  return password
}

/** What comes behind it isn't waited for. */
async function firstLine(input: NodeJS.ReadStream): Promise<string> {
  for await (const line of createInterface({ input })) return line
  return ''
}
