import { createInterface } from 'node:readline'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { CommandFailure, usage } from '../failures.ts'
import type { Session } from '../session.ts'
import { ask, cutTo, displayWidth, terminalWidth, printable, writeTable, type Terminal } from '../terminal.ts'

/** Creates, lists and deletes organizations, lists, fields, keys and users. */

export type RecordView = Record<string, unknown>

export async function createRecord(
  session: Session,
  path: string,
  body: Record<string, RecordView>,
  options: {
    json?: true
    show?: ((session: Session, record: RecordView) => Promise<void>) | undefined
  },
): Promise<void> {
  const created = await session.client.post<RecordView>(path, body)
  if (options.json === true) session.print(created)
  else if (options.show !== undefined) await options.show(session, created)
  else printRecord(session.terminal, created)
}

export async function listRecords(
  session: Session,
  path: string,
  columns: string[],
  options: { json?: true },
): Promise<void> {
  const records = await Array.fromAsync(session.client.list<RecordView>(path))
  const toRow = (record: RecordView) => columns.map((column) => shown(record[column]))
  if (options.json === true) session.print(records)
  else writeTable(session.terminal, session.terminal.out, columns, records.map(toRow))
}

/** Deletes the record with this id, or with this name without case. A text of digits alone is an id. */
export async function deleteRecord(
  { client, terminal, print, say }: Session,
  path: string,
  idOrName: string,
  options: { json?: true; yes?: true; question: string },
): Promise<void> {
  const text = idOrName.trim()
  const id = /^\d+$/.test(text) ? text : await findByName(client, path, text)
  const isAsked = options.yes !== true && terminal.input.isTTY && terminal.err.isTTY
  if (isAsked && !/^y(es)?$/i.test((await ask(terminal, `${printable(options.question)} [y/N] `)).trim()))
    throw new CommandFailure('nothing was deleted')
  await client.delete(`${path}/${id}`)
  if (options.json === true) print(null)
  else say(printable(`${text} was deleted.`))
}

async function findByName(client: Session['client'], path: string, name: string): Promise<string> {
  for await (const record of client.list<{ id: number; name: string }>(path))
    if (comparisonForm(record.name) === comparisonForm(name)) return String(record.id)
  throw new CommandFailure(`there is no ${JSON.stringify(name)}`, {
    hint: 'the command "list" in place of "delete" shows what there is',
  })
}

/** Shown only once, so they are never cut. */
const secrets: ReadonlySet<string> = new Set(['key'])

/** Prints a name and a value of the records on each line. Records may have names in common. */
export function printRecord({ out }: Terminal, ...records: RecordView[]): void {
  const entries = records
    .flatMap((record) => Object.entries(record))
    .filter(([, value]) => value !== null && value !== undefined)
  const names = entries.map(([name]) => printable(name))
  const width = Math.min(Math.max(0, ...names.map(displayWidth)), Math.floor(terminalWidth(out) / 2))
  for (const [i, [name, value]] of entries.entries()) {
    const label = cutTo(names[i] ?? '', width)
    const line = `${label}${' '.repeat(width - displayWidth(label))}  ${printable(String(shown(value)))}`
    out.write(`${secrets.has(name) ? line : cutTo(line, terminalWidth(out))}\n`)
  }
}

function shown(value: unknown): string | number | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'string') return value
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : JSON.stringify(value)
}

/**
 * Reads the password of a new user, which is the first line of standard input or is typed twice. It is never an
 * argument, because other users of the machine could see that.
 */
export async function readPassword(terminal: Terminal, fromInput: boolean): Promise<string> {
  if (fromInput) return firstLine(terminal.input)
  if (!terminal.input.isTTY || !terminal.err.isTTY)
    throw usage('the password is asked for on a terminal; in a script, pipe it in with --password-stdin')
  const password = await ask(terminal, 'Password: ', { isSecret: true })
  if ((await ask(terminal, 'Password again: ', { isSecret: true })) !== password)
    throw usage('the two passwords differ')
  return password
}

/** It doesn't wait for the end of the input. */
async function firstLine(input: NodeJS.ReadStream): Promise<string> {
  for await (const line of createInterface({ input })) return line
  return ''
}
