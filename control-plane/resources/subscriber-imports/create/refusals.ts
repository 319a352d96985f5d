import { builtInColumns } from '../../../../shared/contract/schemas/import.ts'
import { uploadNameProblem } from '../../../../shared/values/upload-names.ts'
import { invalid } from '../../../api/refusal.ts'
import { callbackSchemes, sourceSchemes, urlProblem } from './client-url.ts'

/** What creations and inspections of imports are refused for, beside the faults that their schemas find. */

const ofColumn = <Values extends unknown[]>(reason: (...values: Values) => string, ...example: Values) =>
  invalid((index: number, ...values: Values) => `column_mapping.${index} ${reason(...values)}`, 1, ...example)

export const faultyMapping = {
  noEmail: invalid('column_mapping must hold email'),
  noPrimaryKey: invalid(
    (name: string) => `column_mapping must hold ${JSON.stringify(name)}, the primary key of the list`,
    'Number',
  ),
  unknownColumn: ofColumn(
    (text: string) =>
      `${JSON.stringify(text)} is neither a built-in column (${builtInColumns.join(', ')}) nor a custom field of the list`,
    'Nothing',
  ),
  mappedTwice: ofColumn((text: string) => `${JSON.stringify(text)} is mapped twice`, 'email'),
  needsConfirmed: ofColumn(
    (column: string) => `${column} needs a list with the confirmed field`,
    'confirmed',
  ),
  consentBesideStatus: ofColumn(() => "consent can't be mapped beside status, as both say who gets mail"),
  needsFormat: ofColumn(() => 'email_format needs a list with the format field'),
}

/** An import keeps its defaults for ever, for its view. */
export const maxDefaultsBytes = 256 * 1024

export const faultyDefaults = {
  noSuchField: invalid(
    (name: string) => `default_custom_fields.${name} is no custom field of the list`,
    'Nothing',
  ),
  badValue: invalid(
    (name: string, expectation: string) => `default_custom_fields.${name} must be ${expectation}`,
    'Number',
    'an integer',
  ),
  tooLarge: invalid(`default_custom_fields must have at most ${maxDefaultsBytes} bytes as JSON`),
}

export const faultyAutoresponder = {
  /** `named` is its id, or its name in quotation marks. */
  missing: invalid(
    (key: string, named: string) => `autoresponders.api.${key} ${named} is no autoresponder of the list`,
    'trigger_new',
    '4711',
  ),
  otherTrigger: invalid(
    (key: string, named: string, trigger: string) =>
      `autoresponders.api.${key} ${named} is triggered by ${trigger}, not by the API`,
    'trigger_new',
    '4711',
    'subscription',
  ),
}

export const wrongBeginning = invalid(
  'begins_at must be "now" or ISO 8601 with date and time, such as 2026-01-31T08:00:00+01:00, in the years 1000 to 9999',
)

const faulty = (key: string, example: string) => invalid((problem: string) => `${key} ${problem}`, example)

/** The problem is one of `uploadNameProblem` or `urlProblem`. */
export const faultySource = {
  noContent: invalid('file_source.content is required'),
  blankContent: invalid('file_source.content must not be blank'),
  badFileName: faulty('file_source.filename', 'is required'),
  noSuchUpload: invalid(
    (name: string) => `file_source.filename ${JSON.stringify(name)} is not in the upload directory`,
    'subscribers.csv',
  ),
  badUrl: faulty('file_source.url', 'is required'),
}

const problemOf = (text: string, schemes: readonly string[]): string =>
  urlProblem(URL.parse(text), schemes, { URL_IMPORT_ALLOW: [] }) ?? ''

export const badCallback = faulty('callback_url', problemOf('', callbackSchemes))

/** Further examples of names and URLs, with the problems that their checks find. */
const examples = [
  ...['', '../x', 'a\nb', 'x'.repeat(1_000)].map((name) =>
    faulty('file_source.filename', uploadNameProblem(name) ?? ''),
  ),
  ...['', 'ftp://example.com/%zz', 'http://10.0.0.7/'].map((url) =>
    faulty('file_source.url', problemOf(url, sourceSchemes)),
  ),
  faulty('callback_url', problemOf('http://10.0.0.7/', callbackSchemes)),
]

export const creationRefusals = [
  ...Object.values(faultyMapping),
  ...Object.values(faultyDefaults),
  ...Object.values(faultyAutoresponder),
  wrongBeginning,
  ...Object.values(faultySource),
  badCallback,
  ...examples,
]

/** Keys whose values only the schema refuses. */
export const faultyKeys = [{ autoresponders: { api: { trigger_new: {} } } }, { file_source: { type: 'ftp' } }]
