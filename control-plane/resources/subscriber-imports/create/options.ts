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
  type ImportDocument,
  type ImportOptions,
} from '../../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../../shared/contract/schemas/mailing-list.ts'
import { composeName, uploadNameProblem } from '../../../../shared/values/upload-names.ts'
import { fieldReader, type FieldReader } from '../../../../shared/values/field-value.ts'
import { fieldFinder } from '../../custom-fields/field-finder.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { fileNameInUrl, sourceSchemes, storedUrl, urlProblem } from './client-url.ts'
import {
  faultyAutoresponder,
  faultyDefaults,
  faultyMapping,
  faultySource,
  maxDefaultsBytes,
} from './refusals.ts'
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
 * is added to `problems`. Only without a problem are the options valid.
 */
export function checkOptions(
  body: ImportCreation,
  { list, fields, autoresponders }: ImportDeps,
  problems: RequestError[],
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
  problems: RequestError[],
): (string | null)[] {
  const names = new Set<string>()
  const columns = mapping.map((entry, i) => {
    const text = entry?.trim() ?? ''
    if (text === '') return null
    // A field may have the name of a column that was built in later.
    const field = fieldNamed(text)
    const builtIn =
      field === undefined ? builtInColumns.find((name) => name === text.toLowerCase()) : undefined
    const name = field?.name ?? builtIn
    if (name === undefined) {
      problems.push(faultyMapping.unknownColumn(i, text))
      return null
    }
    if (names.has(name)) problems.push(faultyMapping.mappedTwice(i, text))
    names.add(name)
    if ((builtIn === 'confirmed' || builtIn === 'confirm_time') && !list.has_confirmed)
      problems.push(faultyMapping.needsConfirmed(i, builtIn))
    if (builtIn === 'consent' && mapping.some((other) => other?.trim().toLowerCase() === 'status'))
      problems.push(faultyMapping.consentBesideStatus(i))
    if (builtIn === 'email_format' && !list.has_format) problems.push(faultyMapping.needsFormat(i))
    if (field !== undefined) fieldIds[field.name] = field._id
    return name
  })
  if (!names.has('email')) problems.push(faultyMapping.noEmail())
  const key = fields.find((field) => field._id === list.primary_key_custom_field_id)
  if (key !== undefined && fieldIds[key.name] !== key._id) problems.push(faultyMapping.noPrimaryKey(key.name))
  return columns
}

function checkAutoresponder(
  body: ImportCreation,
  key: ApiTrigger,
  autoresponders: ImportDeps['autoresponders'],
  problems: RequestError[],
): ImportOptions['autoresponders']['api']['trigger_new'] {
  const reference = body.autoresponders.api[key]
  if (reference === null) return null
  const found = autoresponders[key]
  if (found?.trigger === 'api') return { id: found._id, name: found.name }
  const named = String(reference.id ?? JSON.stringify(reference.name))
  problems.push(
    found === null
      ? faultyAutoresponder.missing(key, named)
      : faultyAutoresponder.otherTrigger(key, named, found.trigger),
  )
  return null
}

function checkDefaults(
  body: ImportCreation,
  fieldNamed: FieldNamed,
  fieldIds: Record<string, number>,
  problems: RequestError[],
): Record<string, FieldValue> {
  if (Buffer.byteLength(JSON.stringify(body.default_custom_fields)) > maxDefaultsBytes) {
    problems.push(faultyDefaults.tooLarge())
    return {}
  }
  const values: [string, FieldValue][] = []
  // Many names may be spellings of one field's, so its reader is made once.
  const readers = new Map<number, FieldReader>()
  for (const [name, json] of Object.entries(body.default_custom_fields)) {
    const field = fieldNamed(name.trim())
    if (field === undefined) {
      problems.push(faultyDefaults.noSuchField(name))
      continue
    }
    const isBlank =
      (typeof json === 'string' && json.trim() === '') || (Array.isArray(json) && json.length === 0)
    if (isBlank) continue
    const reader =
      readers.get(field._id) ?? fieldReader(toFieldDefinition(field), body.file_format.date_format)
    readers.set(field._id, reader)
    const value = reader.fromJson(json)
    if (value === null) problems.push(faultyDefaults.badValue(name, reader.expectation))
    // A mark for no date is read as blank too.
    else if (!Array.isArray(value) || value.length > 0) {
      values.push([field.name, value])
      fieldIds[field.name] = field._id
    }
  }
  return Object.fromEntries(values)
}

export type CheckedSource = ImportDocument['source']

/**
 * The source as an import stores it, without its content; a URL still has its password. `content` is null where the
 * body has none. Adds to `problems` as `checkOptions` does. No source is opened: check.ts refuses an upload that is
 * missing, and a URL that doesn't answer fails the import later.
 */
export function checkSource(
  source: ImportCreation['file_source'],
  context: { content: { isBlank: boolean } | null; settings: Settings },
  problems: RequestError[],
): CheckedSource {
  const { display_name } = source
  return {
    ...checkedSource(source, context, problems),
    ...(display_name === undefined ? {} : { display_name }),
  }
}

function checkedSource(
  source: ImportCreation['file_source'],
  { content, settings }: { content: { isBlank: boolean } | null; settings: Settings },
  problems: RequestError[],
): CheckedSource {
  switch (source.type) {
    case 'json':
      if (content === null) problems.push(faultySource.noContent())
      else if (content.isBlank) problems.push(faultySource.blankContent())
      return { type: 'json', filename: 'data', url: null }
    case 'upload_directory': {
      const filename = composeName(source.filename ?? '')
      const problem = source.filename === undefined ? 'is required' : uploadNameProblem(filename)
      if (problem !== null) problems.push(faultySource.badFileName(problem))
      return { type: 'upload_directory', filename, url: null }
    }
    case 'url': {
      const { url: text } = source
      const url = text === undefined ? null : URL.parse(text)
      const problem = text === undefined ? 'is required' : urlProblem(url, sourceSchemes, settings)
      if (problem !== null) problems.push(faultySource.badUrl(problem))
      return {
        type: 'url',
        filename: url === null ? '' : fileNameInUrl(url),
        url: url === null ? null : storedUrl(url, text ?? ''),
      }
    }
  }
}
