import type { Settings } from '../../../shared/runtime/config.ts'
import type { AutoresponderDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import {
  toFieldDefinition,
  type CustomFieldDocument,
  type FieldValue,
} from '../../../shared/contract/schemas/custom-field.ts'
import { builtInColumns, type ImportOptions } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { fileNameProblem } from '../../../shared/storage/uploads/upload-names.ts'
import { fieldReader, type FieldReader } from '../../../shared/values/field-value.ts'
import { fieldFinder } from '../custom-fields/field-finder.ts'
import { fileNameOf, storedUrl, urlProblem } from './given-url.ts'
import type { ImportCreation } from './schemas.ts'

/**
 * A creation's body against the list that it is for: what a schema alone can't see. Pure; all problems are collected,
 * so that a client mends them in one go.
 */
export interface ImportDeps {
  list: MailingListDocument
  fields: CustomFieldDocument[]
  /** Those that the creation names, where the list has them. */
  autoresponders: Record<ApiTrigger, NamedAutoresponder | null>
}

/** The keys under which an import names autoresponders. */
export type ApiTrigger = 'trigger_new' | 'trigger_updated'
export type NamedAutoresponder = Pick<AutoresponderDocument, '_id' | 'name' | 'trigger'>

export interface CheckedOptions {
  options: ImportOptions
  /** Of the custom fields that the options name, by name. */
  fieldIds: Record<string, number>
}

/**
 * The options as an import stores them: names in the list's spelling, defaults as values of their fields. Adds a
 * sentence to `problems` for each thing that is wrong; the options are good for an import only when it adds none.
 */
export function checkOptions(
  given: ImportCreation,
  { list, fields, autoresponders }: ImportDeps,
  problems: string[],
): CheckedOptions {
  const fieldIds: Record<string, number> = {}
  const fieldNamed = fieldFinder(fields, ({ name }) => name)
  const columnMapping = checkMapping(given.column_mapping, { list, fields, fieldNamed }, fieldIds, problems)
  const options: ImportOptions = {
    overwrite: given.overwrite,
    deactivate_subscribers_not_in_import: given.deactivate_subscribers_not_in_import,
    autoresponders: {
      subscription: given.autoresponders.subscription,
      api: {
        trigger_new: checkAutoresponder(given, 'trigger_new', autoresponders, problems),
        trigger_updated: checkAutoresponder(given, 'trigger_updated', autoresponders, problems),
      },
    },
    overwrite_what: given.overwrite_what,
    overwrite_when_status: given.overwrite_when_status,
    column_mapping: columnMapping,
    default_custom_fields: checkDefaults(given, fieldNamed, fieldIds, problems),
    subscriber_defaults: {
      status: given.subscriber_defaults.status,
      ...(list.has_confirmed ? { confirmed: given.subscriber_defaults.confirmed } : {}),
      ...(list.has_format ? { format: given.subscriber_defaults.format } : {}),
    },
    file_format: given.file_format,
    dry_run: given.dry_run,
    blank_cells: given.blank_cells,
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
  const seen = new Set<string>()
  const names = mapping.map((entry, i) => {
    const text = entry?.trim() ?? ''
    if (text === '') return null
    const at = `column_mapping.${i}`
    const builtIn = builtInColumns.find((name) => name === text.toLowerCase())
    const field = builtIn === undefined ? fieldNamed(text) : undefined
    const name = builtIn ?? field?.name
    if (name === undefined) {
      problems.push(
        `${at} ${JSON.stringify(text)} is neither a built-in column (${builtInColumns.join(', ')}) nor a custom field of the list`,
      )
      return null
    }
    if (seen.has(name)) problems.push(`${at} ${JSON.stringify(text)} is mapped twice`)
    seen.add(name)
    if ((builtIn === 'confirmed' || builtIn === 'confirm_time') && !list.has_confirmed)
      problems.push(`${at} ${builtIn} needs a list with the confirmed field`)
    if (builtIn === 'email_format' && !list.has_format)
      problems.push(`${at} email_format needs a list with the format field`)
    if (field !== undefined) fieldIds[field.name] = field._id
    return name
  })
  if (!seen.has('email')) problems.push('column_mapping must hold email')
  const key = fields.find((field) => field._id === list.primary_key_custom_field_id)
  if (key !== undefined && fieldIds[key.name] !== key._id)
    problems.push(`column_mapping must hold ${JSON.stringify(key.name)}, the primary key of the list`)
  return names
}

function checkAutoresponder(
  given: ImportCreation,
  key: ApiTrigger,
  autoresponders: ImportDeps['autoresponders'],
  problems: string[],
): ImportOptions['autoresponders']['api']['trigger_new'] {
  const reference = given.autoresponders.api[key]
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

/** An import keeps them for ever, as what its rows got. */
const maxDefaultsBytes = 256 * 1024
export const defaultsTooLarge = `default_custom_fields must have at most ${maxDefaultsBytes} bytes as JSON`

function checkDefaults(
  given: ImportCreation,
  fieldNamed: FieldNamed,
  fieldIds: Record<string, number>,
  problems: string[],
): Record<string, FieldValue> {
  if (Buffer.byteLength(JSON.stringify(given.default_custom_fields)) > maxDefaultsBytes) {
    problems.push(defaultsTooLarge)
    return {}
  }
  const values: [string, FieldValue][] = []
  // One name may come in many spellings.
  const readers = new Map<number, FieldReader>()
  for (const [name, json] of Object.entries(given.default_custom_fields)) {
    const field = fieldNamed(name.trim())
    if (field === undefined) {
      problems.push(`default_custom_fields.${name} is no custom field of the list`)
      continue
    }
    const isBlank =
      (typeof json === 'string' && json.trim() === '') || (Array.isArray(json) && json.length === 0)
    if (isBlank) continue
    const reader =
      readers.get(field._id) ?? fieldReader(toFieldDefinition(field), given.file_format.date_format)
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
  /** As shown. */
  filename: string
  url: string | null
}

const urlSchemes = ['http:', 'https:', 'ftp:', 'ftps:']

/**
 * The source as an import stores it, without its content; a URL has its password. `content` is what came inline, null
 * where nothing did. Adds to `problems` as checkOptions does. Nothing is opened: what isn't there fails the import.
 */
export function checkSource(
  given: ImportCreation['file_source'],
  { content, settings }: { content: { isBlank: boolean } | null; settings: Settings },
  problems: string[],
): CheckedSource {
  switch (given.type) {
    case 'json':
      if (content === null) problems.push('file_source.content is required')
      else if (content.isBlank) problems.push('file_source.content must not be blank')
      return { type: 'json', filename: 'data', url: null }
    case 'upload_directory': {
      const filename = given.filename ?? ''
      const problem = given.filename === undefined ? 'is required' : fileNameProblem(filename)
      if (problem !== null) problems.push(`file_source.filename ${problem}`)
      return { type: 'upload_directory', filename, url: null }
    }
    case 'url': {
      const url = given.url === undefined ? null : URL.parse(given.url)
      const problem = given.url === undefined ? 'is required' : urlProblem(url, urlSchemes, settings)
      if (problem !== null) problems.push(`file_source.url ${problem}`)
      return {
        type: 'url',
        filename: url === null ? '' : fileNameOf(url),
        url: url === null ? null : storedUrl(url, given.url!),
      }
    }
  }
}
