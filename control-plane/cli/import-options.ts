import { InvalidArgumentError, Option, type Command } from 'commander'
import { characterSets, maxSkipLines } from '../../shared/contract/schemas/import.ts'
import { emailFormats, subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { usage } from './failures.ts'
import { listOption } from './option-values.ts'

/** The options of `rollcall import`, and the request that they make. */

export interface ImportFlags {
  list: string
  map?: string
  createFields?: true
  overwrite?: true
  overwriteWhat?: OverwriteWhat[]
  overwriteWhenStatus?: string[]
  deactivateMissing?: true
  blankCells?: 'keep' | 'clear'
  defaultField?: Record<string, string>
  /** False with --no-field-defaults. */
  fieldDefaults: boolean
  defaultStatus?: string
  defaultFormat?: string
  defaultConfirmed?: true
  triggerAutoresponders?: true
  triggerOnUpdated?: true
  autoresponderNew?: string
  autoresponderUpdated?: string
  dryRun?: true
  watch?: true
  failOn?: number
  via?: Via
  beginsAt?: string
  /** False with --no-headers. */
  headers: boolean
  separator: string
  enclosure?: string
  escape?: Escape
  skipLines?: number
  characterSet: string
  dateFormat?: 'mdy' | 'dmy'
  callbackUrl?: string
  idempotencyKey?: string
  yes?: true
  json?: true
}

type Via = 'inline' | 'http' | 'ftp'

const overwriteWhats = ['custom_fields', 'confirmed', 'format', 'status'] as const
type OverwriteWhat = (typeof overwriteWhats)[number]
const separators: Record<string, string> = { tab: '\t', '\\t': '\t' }
const enclosures: Record<string, string> = { double: '"', single: "'" }
const escapes = { none: null, backslash: '\\' } as const
type Escape = keyof typeof escapes

export function addImportOptions(command: Command): Command {
  // A command takes the default of an option when it is added, so all are added when they are complete.
  const options = [listOption('--list <list>', 'the mailing list, by id or name').makeOptionMandatory()]
  const add = (flags: string, description: string): Option => {
    const option = new Option(flags, description)
    options.push(option)
    return option
  }
  add(
    '--map <columns>',
    'what the columns are: all of them, or some as NUMBER=NAME; - or ignore ignores a column',
  )
  add('--create-fields', 'create a text field for each column that has a header and no field')
  add('--overwrite', 'overwrite subscribers who exist already')
  add('--overwrite-what <what>', `what --overwrite changes: ${overwriteWhats.join(',')}`).argParser(
    someOf(overwriteWhats),
  )
  add(
    '--overwrite-when-status <statuses>',
    `the statuses of those whom --overwrite changes: ${subscriberStatuses.join(',')}`,
  ).argParser(someOf(subscriberStatuses))
  add('--blank-cells <what>', 'whether a blank cell clears a field that is overwritten').choices([
    'keep',
    'clear',
  ])
  add('--deactivate-missing', 'deactivate active subscribers whom the file lacks')
  add('--default-field <name=value>', 'the value of a field where the file has none; repeat it').argParser(
    defaultField,
  )
  add('--no-field-defaults', "leave fields without value; the fields' own defaults are not set")
  add(
    '--default-status <status>',
    'the status of new subscribers, and with --overwrite-what status of others',
  ).choices(subscriberStatuses)
  add(
    '--default-format <format>',
    'the email format of new subscribers, and with --overwrite-what format of others',
  ).choices(emailFormats)
  add('--default-confirmed', 'new subscribers are confirmed, and with --overwrite-what confirmed others too')
  add('--trigger-autoresponders', 'trigger autoresponders on subscription for new subscribers')
  add('--trigger-on-updated', 'with --trigger-autoresponders: for updated subscribers too')
  add('--autoresponder-new <name|id>', 'an API autoresponder for new subscribers')
  add('--autoresponder-updated <name|id>', 'an API autoresponder for updated subscribers')
  add('--dry-run', 'do everything but the writes')
  add('--watch', 'follow the import to its end')
  options.push(failOnOption())
  add('--via <way>', 'how the file is sent').choices(['inline', 'http', 'ftp'])
  add('--begins-at <time>', 'when it begins, by default now')
  add('--no-headers', 'the first line is a record, not a header')
  add('--separator <what>', 'the character between cells: auto , ; | or tab')
    .default('auto')
    .argParser(separator)
  add('--enclosure <what>', 'what cells may be enclosed in: double or single (quotes)').argParser(enclosure)
  add(
    '--escape <what>',
    'what escapes an enclosure inside a cell: none or backslash (as MySQL writes)',
  ).argParser(escape)
  add('--skip-lines <number>', 'lines before the table, such as notes').argParser(skippedLines)
  add('--character-set <name>', "the file's character set, or auto").default('auto').argParser(characterSet)
  add('--date-format <order>', 'mdy if 01/02/2014 is in January, dmy if it is in February').choices([
    'mdy',
    'dmy',
  ])
  add('--callback-url <url>', 'the service sends the import to this URL when it has ended')
  add('--idempotency-key <key>', 'the same key within a day makes no second import')
  add('-y, --yes', 'do not ask for confirmation')
  for (const option of options) command.addOption(option)
  return command
}

export const failOnOption = (): Option =>
  new Option(
    '--fail-on <percent>',
    'with --watch: exit code 3 if more than this percentage of the rows failed',
  ).argParser(percent)

function percent(text: string): number {
  const match = /^(\d{1,3})(?:\.(\d{1,2}))?%?$/.exec(text.trim())
  const value = match === null ? NaN : Number(`${match[1]}.${match[2] ?? '0'}`)
  if (value <= 100) return value
  throw new InvalidArgumentError('It must be a number from 0 to 100 with at most two decimals.')
}

/** Throws wrong usage for an option that would have no effect without another one. */
export function requireCompanions({
  overwrite,
  overwriteWhat,
  overwriteWhenStatus,
  ...rest
}: ImportFlags): void {
  if (overwrite !== true && (overwriteWhat ?? overwriteWhenStatus) !== undefined)
    throw usage('--overwrite-what and --overwrite-when-status say how to overwrite: add --overwrite')
  requireWatch(rest)
}

export function requireWatch({ watch, failOn }: { watch?: true; failOn?: number }): void {
  if (failOn !== undefined && watch !== true)
    throw usage('--fail-on judges an import by its end: add --watch, which waits for it')
}

const someOf =
  <const Name extends string>(names: readonly Name[]) =>
  (text: string): Name[] =>
    text
      .split(',')
      .map((part) => part.trim().toLowerCase().replaceAll('-', '_'))
      .filter((part) => part !== '')
      .map((part) => {
        const name = names.find((known) => known === part)
        if (name === undefined)
          throw new InvalidArgumentError(`Allowed are ${names.join(', ')}, separated by commas.`)
        return name
      })

function separator(text: string): string {
  const value = separators[text] ?? text
  if (['auto', ',', ';', '|', '\t'].includes(value)) return value
  throw new InvalidArgumentError('Allowed are auto, a comma, a semicolon, a bar and tab.')
}

function enclosure(text: string): string {
  const value = enclosures[text] ?? text
  if (['"', "'"].includes(value)) return value
  throw new InvalidArgumentError('Allowed are double and single.')
}

/** A name, because the option of a parser that returns null would get a blank text. */
function escape(text: string): Escape {
  if (text === 'none') return text
  if (text === 'backslash' || text === '\\') return 'backslash'
  throw new InvalidArgumentError('Allowed are none and backslash.')
}

function skippedLines(text: string): number {
  const lines = /^\d{1,3}$/.test(text) ? Number(text) : NaN
  if (lines <= maxSkipLines) return lines
  throw new InvalidArgumentError(`It must be a number from 0 to ${maxSkipLines}.`)
}

/** Wrong usage, because the service would refuse it only when the file is uploaded. */
function characterSet(text: string): string {
  const names = [...characterSets, 'auto']
  const name = names.find((known) => known === text.trim().toLowerCase())
  if (name !== undefined) return name
  throw new InvalidArgumentError(`Allowed are ${names.join(', ')}.`)
}

/** Adds the field of a `NAME=VALUE` or `"NAME"=VALUE`. */
function defaultField(text: string, fields: Record<string, string> = {}): Record<string, string> {
  const [, enclosed, bare = '', value = ''] = /^\s*(?:"((?:[^"]|"")*)"|([^=]*))\s*=([^]*)$/.exec(text) ?? []
  const name = (enclosed?.replaceAll('""', '"') ?? bare).trim()
  if (name === '') throw new InvalidArgumentError('It must be NAME=VALUE; a name with a = is enclosed in ".')
  if (Object.hasOwn(fields, name)) throw new InvalidArgumentError(`${name} is there twice.`)
  return { ...fields, [name]: value }
}

/** The body of a creation without its source, its mapping and what is detected. */
export function importRequest(flags: ImportFlags): Record<string, unknown> {
  const switches = (names: readonly string[], chosen: readonly string[] | undefined) =>
    chosen && Object.fromEntries(names.map((name) => [name, chosen.includes(name)]))
  return withoutUndefined({
    overwrite: flags.overwrite,
    overwrite_what: switches(overwriteWhats, flags.overwriteWhat),
    overwrite_when_status: switches(subscriberStatuses, flags.overwriteWhenStatus),
    deactivate_subscribers_not_in_import: flags.deactivateMissing,
    blank_cells: flags.blankCells,
    default_custom_fields: flags.defaultField,
    apply_custom_field_defaults: flags.fieldDefaults ? undefined : false,
    subscriber_defaults: withoutUndefined({
      status: flags.defaultStatus,
      format: flags.defaultFormat,
      confirmed: flags.defaultConfirmed,
    }),
    autoresponders: {
      subscription: withoutUndefined({
        trigger: flags.triggerAutoresponders,
        also_trigger_on_updated_subscribers: flags.triggerOnUpdated,
      }),
      api: withoutUndefined({
        trigger_new: autoresponder(flags.autoresponderNew),
        trigger_updated: autoresponder(flags.autoresponderUpdated),
      }),
    },
    dry_run: flags.dryRun,
    begins_at: flags.beginsAt,
    callback_url: flags.callbackUrl,
  })
}

/** How the file is read, as far as the options say; the rest is detected. */
export const requestedFormat = (flags: ImportFlags): Record<string, unknown> =>
  withoutUndefined({
    csv_has_headers: flags.headers ? undefined : false,
    character_set: flags.characterSet,
    csv_field_separator: flags.separator,
    csv_field_enclosure: flags.enclosure,
    csv_field_escape: flags.escape && escapes[flags.escape],
    csv_skip_lines: flags.skipLines,
    date_format: flags.dateFormat,
  })

const autoresponder = (text: string | undefined): Record<string, unknown> | undefined =>
  text === undefined ? undefined : /^\d+$/.test(text) ? { id: Number(text) } : { name: text }

const withoutUndefined = (values: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
