import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { readCells } from '../../../shared/csv/csv-cells.ts'
import type { InspectionView } from '../../resources/import-inspection/schemas.ts'
import { ApiRefusal, ServiceUnreachable, type ApiClient, type ImportView } from '../api-client.ts'
import { inCommandTerms } from '../command-terms.ts'
import { exitCodes } from '../exit-codes.ts'
import { CommandFailure, usage } from '../failures.ts'
import type { Session } from '../session.ts'
import { openSourceFile, type LocalCharacterSet, type SourceFile } from '../source-file.ts'
import { ask, terminalWidth, keyboard, printable, styledFor, table, type Terminal } from '../terminal.ts'
import { endExitCode, printSummary, watchToItsEnd } from './imports.ts'
import { removeUpload, sayStays, sendFile } from './send-file.ts'

export interface ImportFlags {
  list: number
  map?: string
  overwrite?: true
  dryRun?: true
  watch?: true
  via?: 'inline' | 'ftp'
  beginsAt?: string
  headers: boolean
  separator?: ',' | ';' | 'tab'
  characterSet?: LocalCharacterSet
  dateFormat?: 'mdy' | 'dmy'
  yes?: true
  json?: true
}

/** Inspects the source, shows what its columns become, asks for confirmation on a terminal, and creates the import. */
export async function importSource(session: Session, source: string, options: ImportFlags): Promise<number> {
  const { client, terminal } = session
  if (isUrl(source)) refuseForUrl(options)
  const file = isUrl(source)
    ? null
    : await openSourceFile(source, {
        input: terminal.input,
        ...(options.characterSet === undefined ? {} : { characterSet: options.characterSet }),
      })
  const requested = requestedOptions(options, file)
  const inspection = await inspect(client, options.list, requested, file ?? source)
  showInspection(terminal, inspection, file)
  const mapping = await confirmMapping(terminal, inspection, source, options)
  const file_format = fileFormat(inspection, options, file)
  const create = (file_source: Record<string, unknown>) =>
    createImport(client, options.list, { ...requested, column_mapping: mapping, file_format, file_source })
  const { created, uploadedAs } =
    file === null
      ? { created: await create({ type: 'url', url: source }), uploadedAs: null }
      : await sendFile(session, file, options, create)
  if (options.json === true) session.print(created)
  else if (options.watch !== true)
    session.say(
      `Import ${created.id} is ${created.state}. Follow it with: rollcall imports ${created.id} --watch`,
    )
  const sayItStays = () => {
    if (uploadedAs !== null) sayStays(terminal, uploadedAs, `remove it when import ${created.id} has ended`)
  }
  const isJson = options.json === true
  const end =
    options.watch === true
      ? await watchToItsEnd(session, created.id, isJson).catch((error: unknown) => {
          sayItStays()
          throw error
        })
      : exitCodes.done
  if (typeof end === 'number') {
    sayItStays()
    return end
  }
  // The upload was only for this import, and would fill the directory.
  if (uploadedAs !== null) await removeUpload(session, uploadedAs)
  if (options.json !== true) printSummary(session, end)
  return endExitCode(end)
}

/** Characters of a sample. A body may have 1 MB, and JSON needs up to six bytes for a character. */
const sampleSizes = [256 * 1024, 32 * 1024]

async function inspect(
  client: ApiClient,
  listId: number,
  requested: Record<string, unknown>,
  source: SourceFile | string,
): Promise<InspectionView> {
  for (const [at, maxCharacters] of sampleSizes.entries()) {
    const file_source =
      typeof source === 'string'
        ? { type: 'url', url: source }
        : { type: 'json', content: source.beginning(maxCharacters) }
    try {
      return await client.post<InspectionView>(`/mailing_lists/${listId}/subscriber_imports/inspect`, {
        subscriber_import: { ...requested, file_source },
      })
    } catch (error) {
      const isLast = at === sampleSizes.length - 1
      if (isLast || !(error instanceof ApiRefusal) || error.status !== 413) throw error
    }
  }
  throw new Error('unreachable: the last sample is answered or refused')
}

const isUrl = (source: string): boolean => /^(https?|ftps?):\/\//i.test(source)

/** The service fetches a URL itself. */
function refuseForUrl({ via }: ImportFlags): void {
  if (via !== undefined) throw usage('a URL is fetched by the service: leave out --via')
}

function requestedOptions(options: ImportFlags, file: SourceFile | null): Record<string, unknown> {
  const format = {
    ...(options.headers ? {} : { csv_has_headers: false }),
    ...(options.separator === undefined
      ? {}
      : { csv_field_separator: options.separator === 'tab' ? '\t' : options.separator }),
    ...(options.dateFormat === undefined ? {} : { date_format: options.dateFormat }),
    ...(file === null && options.characterSet !== undefined ? { character_set: options.characterSet } : {}),
  }
  return {
    ...(options.map === undefined ? {} : { column_mapping: parseMapping(options.map) }),
    ...(options.overwrite === undefined ? {} : { overwrite: true }),
    ...(options.dryRun === undefined ? {} : { dry_run: true }),
    ...(options.beginsAt === undefined ? {} : { begins_at: options.beginsAt }),
    file_format: format,
  }
}

/** Parses a mapping such as `email,First name,"Last, first",-`. A blank name or a dash ignores the column. */
export function parseMapping(text: string): (string | null)[] {
  return readCells(text, { csv_field_separator: ',', csv_field_enclosure: '"' }).map((cell) => {
    const name = cell.trim()
    return name === '' || name === '-' ? null : name
  })
}

/** How the service is to read the file. A file of this machine is sent to it as UTF-8. */
function fileFormat(
  inspection: InspectionView,
  options: ImportFlags,
  file: SourceFile | null,
): Record<string, unknown> {
  const separator = options.separator === 'tab' ? '\t' : (options.separator ?? inspection.csv_field_separator)
  const found = file === null ? (options.characterSet ?? inspection.character_set) : 'utf-8'
  return {
    csv_has_headers: options.headers && inspection.csv_has_headers,
    csv_field_separator: separator,
    csv_field_enclosure: inspection.csv_field_enclosure,
    character_set: found,
    ...(options.dateFormat === undefined && inspection.date_format === null
      ? {}
      : { date_format: options.dateFormat ?? inspection.date_format }),
  }
}

const separatorNames: Record<string, string> = { ',': 'commas', ';': 'semicolons', '\t': 'tabs', '|': 'bars' }

/** Prints the format of the file and the mapping of its columns on standard error. */
function showInspection(terminal: Terminal, inspection: InspectionView, file: SourceFile | null): void {
  const { err } = terminal
  const style = styledFor(terminal, err)
  const characterSet = file?.characterSet ?? inspection.character_set
  err.write(
    `${characterSet}, ${separatorNames[inspection.csv_field_separator]} between cells, ${inspection.csv_has_headers ? 'a header line' : 'no header line'}${inspection.date_format === null ? '' : `, dates are ${inspection.date_format}`}\n`,
  )
  const rows = inspection.columns.map(({ header, samples, proposed, confidence }, i) => {
    const target = inspection.column_mapping[i] ?? null
    return [
      i + 1,
      header ?? '',
      samples[0] ?? '',
      target ?? '(ignored)',
      target === null || target !== proposed ? '' : `${Math.round(confidence * 100)}%`,
    ]
  })
  err.write(
    table(['#', 'header', 'first value', 'imported as', 'confidence'], rows, {
      width: terminalWidth(err),
      style,
    }),
  )
  const failed = inspection.records.filter(({ result }) => result === 'failed')
  const [firstFailed] = failed
  if (firstFailed !== undefined)
    err.write(
      `${style('yellow', `${failed.length} of the first ${inspection.records.length} records would fail`)}: ${printable(firstFailed.error ?? '')}\n`,
    )
  for (const warning of inspection.warnings)
    err.write(`${style('yellow', 'warning:')} ${printable(inCommandTerms(warning))}\n`)
}

/** Resolves to the mapping of the import. It asks only on a terminal, and not with --map, --yes or --json. */
async function confirmMapping(
  terminal: Terminal,
  inspection: InspectionView,
  source: string,
  options: ImportFlags,
): Promise<(string | null)[]> {
  const { input, err } = terminal
  const isInteractive = options.yes !== true && options.json !== true && input.isTTY && err.isTTY
  const problem = inspection.import_error === null ? null : inCommandTerms(inspection.import_error)
  if (options.map !== undefined || !isInteractive) {
    if (problem === null) return inspection.column_mapping
    const hint = 'say what each column is, for example --map email,-,"First name"'
    throw new CommandFailure(problem, { hint: options.map === undefined ? hint : null })
  }
  if (problem !== null) err.write(`${printable(problem)}\n`)
  // Standard input was the file and has ended, so the answer is read from the terminal itself.
  const answers = source === '-' ? keyboard() : input
  if (answers === null) throw usage('there is no terminal to confirm the columns on: use --yes or --map')
  try {
    return await askForMapping({ ...terminal, input: answers }, inspection)
  } finally {
    if (answers !== input) answers.destroy()
  }
}

async function askForMapping(terminal: Terminal, inspection: InspectionView): Promise<(string | null)[]> {
  const isUsable = inspection.import_error === null
  for (;;) {
    const answer = (
      await ask(
        terminal,
        isUsable ? 'Import it like this? [Y/n, or a mapping] ' : 'Which column is which? [a mapping, or n] ',
      )
    ).trim()
    if (isUsable && /^(y|yes|)$/i.test(answer)) return inspection.column_mapping
    if (/^(n|no)$/i.test(answer)) throw new CommandFailure('nothing was imported')
    if (answer !== '') return parseMapping(answer)
  }
}

/** Sends an idempotency key, so that a second try after a lost reply doesn't create a second import. */
async function createImport(
  client: ApiClient,
  listId: number,
  subscriber_import: Record<string, unknown>,
): Promise<ImportView> {
  const headers = { 'idempotency-key': randomUUID() }
  for (let triesLeft = 3; ; triesLeft -= 1) {
    try {
      return await client.post<ImportView>(
        `/mailing_lists/${listId}/subscriber_imports`,
        { subscriber_import },
        headers,
      )
    } catch (error) {
      if (!(error instanceof ServiceUnreachable) || triesLeft === 0) throw error
      await sleep(1_000)
    }
  }
}
