import type { Settings } from '../../../../shared/runtime/config.ts'
import type { AutoresponderDocument } from '../../../../shared/contract/schemas/autoresponder.ts'
import {
  toFieldDefinition,
  type CustomFieldDocument,
  type FieldValue,
} from '../../../../shared/contract/schemas/custom-field.ts'
import {
  builtInColumns,
  subscriberDefaults,
  type ImportOptions,
} from '../../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import { composeName, fileNameProblem } from '../../../../shared/storage/uploads/upload-names.ts'
import { fieldReader, type FieldReader } from '../../../../shared/values/field-value.ts'
import { fieldFinder } from '../../custom-fields/field-finder.ts'
import { fileNameInUrl, storedUrl, urlProblem } from './client-url.ts'
import type { ImportCreation } from '../schemas.ts'

/**
 * A creation's body against its list: what a schema alone can't check. Pure. All problems are collected, so that a
 * client fixes them in one go.
 */
export interface ImportDeps {
  list: MailingListDocument
  fields: CustomFieldDocument[]
  /** The autoresponders that the creation names; null where it names none, or the list doesn't have it. */
  autoresponders: Record<ApiTrigger, NamedAutoresponder | null>
}

/** The keys under which an import names autoresponders. */
export type ApiTrigger = 'trigger_new' | 'trigger_updated'
export type NamedAutoresponder = Pick<AutoresponderDocument, '_id' | 'name' | 'trigger'>

export interface CheckedOptions {
  options: ImportOptions
  /** Ids of the custom fields that the options name, by name. */
  fieldIds: Record<string, number>
}

/**
 * The options as an import stores them: names in the list's spelling, defaults as values of their fields. Each problem
 * is added to `problems` as a sentence. Only without a problem are the options valid.
 */
export function checkOptions(
  body: ImportCreation,
  { list, fields, autoresponders }: ImportDeps,
  problems: string[],
): CheckedOptions {
  const fieldIds: Record<string, number> = {}
  const fieldNamed = fieldFinder(fields, ({ name }) => name)
  const columnMapping = checkMapping(body.column_mapping, { list, fields, fieldNamed }, fieldIds, problems)
  const { status, confirmed, format } = body.subscriber_defaults
  const options: ImportOptions = {
    overwrite: body.overwrite,
    deactivate_subscribers_not_in_import: body.deactivate_subscribers_not_in_import,
    autoresponders: {
      subscription: body.autoresponders.subscription,
      api: {
        trigger_new: checkAutoresponder(body, 'trigger_new', autoresponders, problems),
        trigger_updated: checkAutoresponder(body, 'trigger_updated', autoresponders, problems),
      },
    },
    overwrite_what: body.overwrite_what,
    overwrite_when_status: body.overwrite_when_status,
    column_mapping: columnMapping,
    default_custom_fields: checkDefaults(body, fieldNamed, fieldIds, problems),
    subscriber_defaults: {
      status: status ?? 'active',
      ...(list.has_confirmed ? { confirmed: confirmed ?? false } : {}),
      ...(list.has_format ? { format: format ?? 'both' } : {}),
    },
    given_defaults: subscriberDefaults.filter((name) => body.subscriber_defaults[name] !== undefined),
    file_format: {
      ...body.file_format,
      csv_field_separator: body.file_format.csv_field_separator ?? ',',
    },
    ...(body.file_format.csv_field_separator === undefined ? { default_separator: true as const } : {}),
    dry_run: body.dry_run,
    blank_cells: body.blank_cells,
    apply_custom_field_defaults: body.apply_custom_field_defaults,
  }
  return { options, fieldIds }
}

type FieldNamed = (name: string) => CustomFieldDocument | undefined

function checkMapping(
  mapping: (string | null)[],
  { list, fields, fieldNamed }: Pick<ImportDeps, 'list' | 'fields'> & { fieldNamed: FieldNamed },
  fieldIds: Record<string, number>,
  problems: string[],
): (string | null)[] {
  const names = new Set<string>()
  const columns = mapping.map((entry, i) => {
    const text = entry?.trim() ?? ''
    if (text === '') return null
    const at = `column_mapping.${i}`
    // A field may have the name of a column that was built in later.
    const field = fieldNamed(text)
    const builtIn =
      field === undefined ? builtInColumns.find((name) => name === text.toLowerCase()) : undefined
    const name = field?.name ?? builtIn
    if (name === undefined) {
      problems.push(
        `${at} ${JSON.stringify(text)} is neither a built-in column (${builtInColumns.join(', ')}) nor a custom field of the list`,
      )
      return null
    }
    if (names.has(name)) problems.push(`${at} ${JSON.stringify(text)} is mapped twice`)
    names.add(name)
    if ((builtIn === 'confirmed' || builtIn === 'confirm_time') && !list.has_confirmed)
      problems.push(`${at} ${builtIn} needs a list with the confirmed field`)
    if (builtIn === 'consent' && mapping.some((other) => other?.trim().toLowerCase() === 'status'))
      problems.push(`${at} consent can't be mapped beside status, as both say who gets mail`)
    if (builtIn === 'email_format' && !list.has_format)
      problems.push(`${at} email_format needs a list with the format field`)
    if (field !== undefined) fieldIds[field.name] = field._id
    return name
  })
  if (!names.has('email')) problems.push('column_mapping must hold email')
  const key = fields.find((field) => field._id === list.primary_key_custom_field_id)
  if (key !== undefined && fieldIds[key.name] !== key._id)
    problems.push(`column_mapping must hold ${JSON.stringify(key.name)}, the primary key of the list`)
  return columns
}

function checkAutoresponder(
  body: ImportCreation,
  key: ApiTrigger,
  autoresponders: ImportDeps['autoresponders'],
  problems: string[],
): ImportOptions['autoresponders']['api']['trigger_new'] {
  const reference = body.autoresponders.api[key]
  if (reference === null) return null
  const found = autoresponders[key]
  if (found?.trigger === 'api') return { id: found._id, name: found.name }
  const named = reference.id ?? JSON.stringify(reference.name)
  problems.push(
    found === null
      ? `autoresponders.api.${key} ${named} is no autoresponder of the list`
      : `autoresponders.api.${key} ${named} is triggered by ${found.trigger}, not by the API`,
  )
  return null
}

/** An import keeps its defaults for ever, for its view. */
const maxDefaultsBytes = 256 * 1024
export const defaultsTooLarge = `default_custom_fields must have at most ${maxDefaultsBytes} bytes as JSON`

function checkDefaults(
  body: ImportCreation,
  fieldNamed: FieldNamed,
  fieldIds: Record<string, number>,
  problems: string[],
): Record<string, FieldValue> {
  if (Buffer.byteLength(JSON.stringify(body.default_custom_fields)) > maxDefaultsBytes) {
    problems.push(defaultsTooLarge)
    return {}
  }
  const values: [string, FieldValue][] = []
  // Many names may be spellings of one field's, so its reader is made once.
  const readers = new Map<number, FieldReader>()
  for (const [name, json] of Object.entries(body.default_custom_fields)) {
    const field = fieldNamed(name.trim())
    if (field === undefined) {
      problems.push(`default_custom_fields.${name} is no custom field of the list`)
      continue
    }
    const isBlank =
      (typeof json === 'string' && json.trim() === '') || (Array.isArray(json) && json.length === 0)
    if (isBlank) continue
    const reader =
      readers.get(field._id) ?? fieldReader(toFieldDefinition(field), body.file_format.date_format)
    readers.set(field._id, reader)
    const value = reader.fromJson(json)
    if (value === null) problems.push(`default_custom_fields.${name} must be ${reader.expectation}`)
    else {
      values.push([field.name, value])
      fieldIds[field.name] = field._id
    }
  }
  return Object.fromEntries(values)
}

export interface CheckedSource {
  type: ImportCreation['file_source']['type']
  /** The name that views show. */
  filename: string
  url: string | null
}

const urlSchemes = ['http:', 'https:', 'ftp:', 'ftps:']

/**
 * The source as an import stores it, without its content; a URL still has its password. `content` is null where the
 * body has none. Adds to `problems` as `checkOptions` does. No source is opened: check.ts refuses an upload that is
 * missing, and a URL that doesn't answer fails the import later.
 */
export function checkSource(
  source: ImportCreation['file_source'],
  { content, settings }: { content: { isBlank: boolean } | null; settings: Settings },
  problems: string[],
): CheckedSource {
  switch (source.type) {
    case 'json':
      if (content === null) problems.push('file_source.content is required')
      else if (content.isBlank) problems.push('file_source.content must not be blank')
      return { type: 'json', filename: 'data', url: null }
    case 'upload_directory': {
      const filename = composeName(source.filename ?? '')
      const problem = source.filename === undefined ? 'is required' : fileNameProblem(filename)
      if (problem !== null) problems.push(`file_source.filename ${problem}`)
      return { type: 'upload_directory', filename, url: null }
    }
    case 'url': {
      const { url: text } = source
      const url = text === undefined ? null : URL.parse(text)
      const problem = text === undefined ? 'is required' : urlProblem(url, urlSchemes, settings)
      if (problem !== null) problems.push(`file_source.url ${problem}`)
      return {
        type: 'url',
        filename: url === null ? '' : fileNameInUrl(url),
        url: url === null ? null : storedUrl(url, text ?? ''),
      }
    }
  }
}
