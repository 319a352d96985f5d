import { invalid, notFound, takenByAnother } from '../../api/refusal.ts'
import { maxContents } from './schemas.ts'

export const noTemplate = notFound('template')

export const nameTaken = takenByAnother('template of the list', 'Monthly news')
export const isReadOnly = invalid(
  (name: string) => `${name} is read-only and must not be sent`,
  'organization_id',
)

export const sqlElsewhere = invalid('segmentation_criteria_remote_sql is possible only on Remote Lists')
export const twoSegments = invalid(
  'only one of segmentation_criteria_id and segmentation_criteria_remote_sql may be given',
)

/** The contents of a creation can be refused for these, and those of a change for more. */
export const faultyContents = {
  contentsAndOne: invalid(
    "contents can't be given together with content_subject, email_format, content_html, content_text, which are the fields of one content",
  ),
  removalWithoutId: invalid(
    (index: number) => `contents.${index}._destroy needs the id of the content to remove`,
    0,
  ),
  noSuchContent: invalid(
    (index: number, id: number) => `contents.${index}.id ${id} names no content of the template`,
    0,
    11,
  ),
}
export const givenTwice = invalid(
  (index: number, id: number) => `contents.${index}.id ${id} is given twice`,
  0,
  9,
)
export const formatIsNull = invalid((index: number) => `contents.${index}.format can't be null`, 0)

/** Half of the database's limit for a document, which is 16 MB. */
export const maxContentBytes = 8_000_000
export const contentsTooLarge = invalid(`contents must have at most ${maxContentBytes} bytes in all`)
export const tooManyContents = invalid(`contents must have at most ${maxContents} entries in all`)

export const twoRules = invalid(
  'only one of dispatch_attributes.special_sending_rule_id and special_sending_rule_name may be given',
)
export const wrongBeginning = invalid(
  'dispatch_attributes.begins_at must be an ISO 8601 time with `T`, such as 2026-01-31T12:00:00+01:00, in the years 1000 to 9999',
)
