import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { InspectionView } from '../../resources/import-inspection/schemas.ts'
import type { MailingListView } from '../../resources/mailing-lists/schemas.ts'
import type { CreatedImportView, ImportView } from '../../resources/subscriber-imports/schemas.ts'
import { ApiRefusal, ServiceUnreachable } from '../api-client.ts'
import { parseMap, type ColumnMap, type Mapped } from '../column-map.ts'
import { inCommandTerms } from '../command-terms.ts'
import { exitCodes } from '../exit-codes.ts'
import { CommandFailure, refusedMap, usage } from '../failures.ts'
import { importRequest, requestedFormat, requireCompanions, type ImportFlags } from '../import-options.ts'
import { findList } from '../mailing-list.ts'
import type { Session } from '../session.ts'
import { openSourceFile, type SourceFile } from '../source-file.ts'
import { ask, keyboard, printable, wrapTo, terminalWidth, writeSentence, type Terminal } from '../terminal.ts'
import {
  chooseColumns,
  planFields,
  showInspection,
  showWarnings,
  withOwnColumns,
  type Columns,
  type NewField,
} from './columns.ts'
import { endExitCode, printEnd, watchToItsEnd } from './imports.ts'
import {
  createInline,
  inlineContent,
  isInlineKind,
  removeUpload,
  sayStays,
  uploadFile,
  type Upload,
} from './send-file.ts'

/** One run of the command: a source, the list it goes to, and the upload that was made for it. */
interface Run {
  session: Session
  options: ImportFlags
  list: MailingListView
  /** The file or URL as it was typed. */
  source: string
  /** Null for a URL, which the service fetches. */
  file: SourceFile | null
  map: ColumnMap | null
  upload: Upload | null
  /** No reply says whether the import was created. It may exist, and need the upload. */
  mayExist: boolean
}

/** Inspects the source, shows what its columns become, asks for confirmation on a terminal, and creates the import. */
export async function importSource(session: Session, source: string, options: ImportFlags): Promise<number> {
  requireCompanions(options)
  const map = options.map === undefined ? null : parseMap(options.map)
  const isUrl = /^(https?|ftps?):\/\//i.test(source)
  if (isUrl && options.via !== undefined) throw usage('a URL is fetched by the service: leave out --via')
  const file = isUrl ? null : await openSourceFile(source, session.terminal.input)
  const content = file === null ? null : await inlineContent(file, options)
  const list = await findList(session.client, options.list)
  const run: Run = { session, options, list, source, file, map, upload: null, mayExist: false }
  const created = await createImport(run, content)
  announce(run, created)
  return options.watch === true ? watchImportOf(run, created) : exitCodes.done
}

function announce({ session, options }: Run, created: CreatedImportView): void {
  if (options.json === true) session.print(created)
  else if (options.watch !== true)
    session.say(
      `Import ${created.id} is ${created.state}. Follow it with: rollcall imports ${created.id} --watch`,
    )
  if (options.json !== true && created.callback_secret !== undefined)
    session.say(`Its callback is signed with ${created.callback_secret}, which is shown only now.`)
}

async function watchImportOf({ session, options }: Run, { id }: ImportView): Promise<number> {
  const end = await watchToItsEnd(session, id, options.json === true)
  if (typeof end === 'number') return end
  printEnd(session, end, { isJson: options.json === true })
  return endExitCode(end, options.failOn)
}

/** Removes the upload again if no import comes of it. */
async function createImport(run: Run, content: string | null): Promise<CreatedImportView> {
  const { session, options, list, source, file } = run
  try {
    // What isn't plain UTF-8 can only be looked at by the service.
    if (file !== null && !isInlineKind(file, options)) run.upload = await uploadFile(session, file, options)
    const { inspection, mapping } = await decideColumns(run)
    const request = {
      ...importRequest(options),
      column_mapping: mapping,
      file_format: fileFormat(inspection, options),
    }
    const headers = { 'idempotency-key': options.idempotencyKey ?? randomUUID() }
    // What is shown in place of the name that an upload got, or of no name at all.
    const shown =
      file === null || source === '-' || /\p{Cc}/u.test(file.name) ? {} : { display_name: file.name }
    const create = (file_source: Record<string, unknown>) =>
      postImport(session, list.id, {
        body: { ...request, file_source: { ...file_source, ...shown } },
        headers,
      }).catch((error: unknown) => {
        run.mayExist = isOutcomeUnknown(error)
        throw error
      })
    if (file === null) return await create({ type: 'url', url: source })
    const inline = content === null ? null : await createInline(content, options, create)
    if (inline !== null) return inline
    run.upload ??= await uploadFile(session, file, options)
    // The upload is for this import alone, and would fill the directory.
    return await create({ type: 'upload_directory', filename: run.upload.filename, delete_after: true })
  } catch (error) {
    if (run.upload !== null && run.mayExist)
      sayStays(session.terminal, run.upload.filename, 'remove it when no import reads it')
    else if (run.upload?.isNew === true) await removeUpload(session, run.upload)
    throw error
  }
}

/** The mapping of the import, after the fields that --create-fields makes were made. */
async function decideColumns(run: Run): Promise<{ inspection: InspectionView; mapping: Mapped[] }> {
  const { session, options, list } = run
  const { terminal } = session
  const inspection = await inspectMapped(run)
  const fieldNames = await Array.fromAsync(
    session.client.list<{ name: string }>(`/mailing_lists/${list.id}/custom_fields`),
    ({ name }) => name,
  )
  const plan = (columns: Columns) =>
    options.createFields === true ? planFields(inspection, columns, fieldNames) : []
  const explicit = chooseColumns(run.map, inspection.column_mapping)
  const guessed = { mapping: inspection.column_mapping, ignored: explicit.ignored }
  const newFields = plan(guessed)
  const listed = showWarnings(terminal, inspection, { ...guessed, list, fieldNames, newFields })
  showInspection(terminal, inspection, { mapping: guessed.mapping, newFields, listed })
  const columns = await confirmColumns(run, inspection, guessed)
  const fields = columns === guessed ? newFields : plan(columns)
  return { inspection, mapping: await createFields(run, columns.mapping, fields) }
}

/** The inspection with what --map says. Changes of single columns need a first one, for the guess. */
async function inspectMapped(run: Run): Promise<InspectionView> {
  const { map } = run
  if (map === null) return inspect(run, null)
  const guess = 'whole' in map ? [] : (await inspect(run, null)).column_mapping
  const { mapping } = chooseColumns(map, guess)
  const inspection = await inspect(run, mapping)
  const whole = withOwnColumns(mapping, inspection)
  return whole === mapping ? inspection : inspect(run, whole)
}

/** Characters of a sample. Up to four bytes for each, as JSON takes for all text, are within the lowest limit of a body. */
const maxSampleCharacters = 256 * 1024

async function inspect(
  { session, options, list, source, file, upload }: Run,
  mapping: Mapped[] | null,
): Promise<InspectionView> {
  const request = {
    ...importRequest(options),
    ...(mapping === null ? {} : { column_mapping: mapping }),
    file_format: requestedFormat(options),
  }
  const file_source =
    upload !== null
      ? { type: 'upload_directory', filename: upload.filename }
      : file === null
        ? { type: 'url', url: source }
        : { type: 'json', content: file.sample(maxSampleCharacters) }
  try {
    return await session.client.post<InspectionView>(`/mailing_lists/${list.id}/subscriber_imports/inspect`, {
      subscriber_import: { ...request, file_source },
    })
  } catch (error) {
    throw mapping === null ? error : refusedMap(error)
  }
}

/** How the service is to read the file: what was asked for, which may be `auto`, and else what it has proposed. */
const fileFormat = (inspection: InspectionView, options: ImportFlags): Record<string, unknown> => ({
  csv_field_enclosure: inspection.csv_field_enclosure,
  csv_field_escape: inspection.csv_field_escape,
  csv_skip_lines: inspection.csv_skip_lines,
  ...(inspection.date_format === null ? {} : { date_format: inspection.date_format }),
  csv_has_headers: inspection.csv_has_headers,
  ...requestedFormat(options),
})

const isInteractive = ({ session: { terminal }, options }: Run): boolean =>
  options.yes !== true && options.json !== true && terminal.input.isTTY && terminal.err.isTTY

/** Resolves to the columns of the import. It asks only on a terminal, and not with --map, --yes or --json. */
async function confirmColumns(run: Run, inspection: InspectionView, guessed: Columns): Promise<Columns> {
  const { session, options } = run
  const { import_error: error } = inspection
  const problem = error === null ? null : inCommandTerms(error)
  // Another mapping mends no other fault, such as bytes that are not text.
  const isMappingAtFault = error?.startsWith('column_mapping') ?? false
  const hasToBeUsable = options.map !== undefined || !isInteractive(run)
  if (problem !== null && (hasToBeUsable || !isMappingAtFault)) {
    const hint = 'say what each column is, for example --map email,-,"First name"'
    throw new CommandFailure(problem, { hint: isMappingAtFault && options.map === undefined ? hint : null })
  }
  if (!isInteractive(run)) requireSomeGoodRecord(run, inspection)
  if (hasToBeUsable) return guessed
  if (problem !== null) writeSentence(session.terminal.err, printable(problem))
  return withKeyboard(run, (terminal) => askForColumns(terminal, inspection, guessed))
}

/** Without a question, an import of which no record could be imported is most likely a mistake. A dry run only shows it. */
function requireSomeGoodRecord({ options }: Run, { records }: InspectionView): void {
  if (
    options.yes === true ||
    options.dryRun === true ||
    records.length === 0 ||
    records.some(({ result }) => result !== 'failed')
  )
    return
  throw new CommandFailure(
    `nothing was imported: all of the first ${records.length} records would fail, the first one because of ${inCommandTerms(records[0]?.error ?? '')}`,
    { hint: 'say what each column is with --map, or import it as it is with --yes' },
  )
}

/** Standard input may have been the file and has ended then; answers are read from the terminal itself. */
async function withKeyboard<T>(run: Run, use: (terminal: Terminal) => Promise<T>): Promise<T> {
  const { session, source, upload } = run
  const answers = source === '-' ? keyboard() : session.terminal.input
  if (answers === null) throw usage('there is no terminal to confirm the columns on: use --yes or --map')
  // A question ends the program on Ctrl-C, and nothing would read the upload.
  const onInterrupt = () => {
    void removeUpload(session, upload!).finally(() => process.exit(exitCodes.interrupted))
  }
  if (upload?.isNew === true) process.once('SIGINT', onInterrupt)
  try {
    return await use({ ...session.terminal, input: answers })
  } finally {
    process.off('SIGINT', onInterrupt)
    if (answers !== session.terminal.input) answers.destroy()
  }
}

async function askForColumns(
  terminal: Terminal,
  inspection: InspectionView,
  guessed: Columns,
): Promise<Columns> {
  const isUsable = inspection.import_error === null
  for (;;) {
    const answer = (
      await ask(
        terminal,
        isUsable ? 'Import it? [Y/n, or a mapping] ' : 'Which column is which? [mapping, n] ',
      )
    ).trim()
    if (isUsable && /^(y|yes|)$/i.test(answer)) return guessed
    if (/^(n|no)$/i.test(answer)) throw new CommandFailure('nothing was imported')
    if (answer === '') continue
    try {
      const { mapping, ignored } = chooseColumns(parseMap(answer), guessed.mapping)
      return { mapping: withOwnColumns(mapping, inspection), ignored }
    } catch (error) {
      if (!(error instanceof CommandFailure)) throw error
      writeSentence(terminal.err, printable(error.message))
    }
  }
}

/** Makes the fields after asking on a terminal, and resolves to the mapping with them. A dry run makes none. */
async function createFields(run: Run, mapping: Mapped[], fields: NewField[]): Promise<Mapped[]> {
  if (fields.length === 0) return mapping
  const { session, options, list } = run
  const { err } = session.terminal
  const names = fields.map(({ column, name }) => `  column ${column + 1}: ${name}`)
  const count = fields.length === 1 ? 'a text field' : `${fields.length} text fields`
  const heading =
    options.dryRun === true ? `Without --dry-run, ${count} would be created:` : `To be created, ${count}:`
  writeSentence(err, heading)
  for (const name of names) err.write(`${wrapTo(printable(name), terminalWidth(err))}\n`)
  if (options.dryRun === true) return mapping
  if (isInteractive(run)) {
    const answer = await withKeyboard(run, (terminal) => ask(terminal, 'Create and import? [Y/n] '))
    if (!/^(y|yes|)$/i.test(answer.trim()))
      throw new CommandFailure('no field was created, and nothing was imported')
  }
  const complete = Array.from(
    { length: Math.max(mapping.length, ...fields.map(({ column }) => column + 1)) },
    (_, i) => mapping[i] ?? null,
  )
  for (const { column, name } of fields) {
    await session.client.post(`/mailing_lists/${list.id}/custom_fields`, {
      custom_field: { name, field_type: 'text' },
    })
    complete[column] = name
  }
  return complete
}

/**
 * Tries again after a lost reply, and after one that leaves open whether the import was created. The idempotency key
 * keeps that from making a second import.
 */
async function postImport(
  { client }: Session,
  listId: number,
  { body, headers }: { body: Record<string, unknown>; headers: Record<string, string> },
): Promise<CreatedImportView> {
  for (let triesLeft = 3; ; triesLeft -= 1) {
    try {
      return await client.post<CreatedImportView>(
        `/mailing_lists/${listId}/subscriber_imports`,
        { subscriber_import: body },
        headers,
      )
    } catch (error) {
      if (!isOutcomeUnknown(error) || triesLeft === 0) throw error
      await sleep(1_000)
    }
  }
}

/** A 503 may come after the creation was committed. */
const isOutcomeUnknown = (error: unknown): boolean =>
  error instanceof ServiceUnreachable || (error instanceof ApiRefusal && error.status >= 500)
