import type { TemplateContent } from '../../../shared/contract/schemas/campaign-template.ts'
import { maxContents, type ContentEntry, type TemplateChange } from './schemas.ts'

/** Applies a request to the stored contents of a template. */

/** Half of the database's limit for a document, which is 16 MB. */
export const maxContentBytes = 8_000_000
export const contentsTooLarge = `contents must have at most ${maxContentBytes} bytes in all`
export const tooManyContents = `contents must have at most ${maxContents} entries in all`

const singleFields = ['content_subject', 'email_format', 'content_html', 'content_text'] as const

/** The number of contents that a request may add; each needs an id. */
export function countNewContents(change: TemplateChange): number {
  const added = (change.contents ?? []).filter(({ id }) => id === undefined || id === null).length
  return added + (hasSingleFields(change) ? 1 : 0)
}

const hasSingleFields = (change: TemplateChange): boolean =>
  singleFields.some((field) => change[field] !== undefined)

/** The contents after the request, sorted by id. Added ones get ids from `firstId` on. Each problem is added. */
export function changedContents(
  stored: TemplateContent[],
  change: TemplateChange,
  firstId: number,
  problems: string[],
): TemplateContent[] {
  if (change.contents !== undefined && hasSingleFields(change)) {
    problems.push(
      `contents can't be given together with ${singleFields.join(', ')}, which are the fields of one content`,
    )
    return stored
  }
  const entries = hasSingleFields(change) ? [singleContent(stored, change)] : (change.contents ?? [])
  const faults = entries.flatMap((entry, index) => entryFaults(entry, index, stored, entries))
  const byId = new Map(stored.map((content) => [content.id, content]))
  let nextId = firstId
  for (const { id, _destroy: isRemoved, ...fields } of entries) {
    if (isRemoved === true) byId.delete(id ?? 0)
    else if (id === undefined || id === null) {
      byId.set(nextId, { id: nextId, ...emptyContent, ...withoutAbsent(fields, [undefined, null]) })
      nextId += 1
    } else {
      const content = byId.get(id)
      if (content !== undefined) byId.set(id, { ...content, ...withoutAbsent(fields, [undefined]) })
    }
  }
  const contents = [...byId.values()].sort((a, b) => a.id - b.id)
  problems.push(...(faults.length > 0 ? faults : sizeFaults(contents)))
  return contents
}

const emptyContent = { name: null, subject: null, format: 'both', html: null, text: null } as const

/** The deprecated fields change the content with the lowest id, or add one when there is none. */
function singleContent(stored: TemplateContent[], change: TemplateChange): ContentEntry {
  return {
    id: stored[0]?.id,
    subject: change.content_subject,
    format: change.email_format,
    html: change.content_html,
    text: change.content_text,
  }
}

function entryFaults(
  { id, format, _destroy: isRemoved }: ContentEntry,
  index: number,
  stored: TemplateContent[],
  entries: ContentEntry[],
): string[] {
  const name = `contents.${index}`
  if (id === undefined || id === null)
    return isRemoved === true ? [`${name}._destroy needs the id of the content to remove`] : []
  if (!stored.some((content) => content.id === id))
    return [`${name}.id ${id} names no content of the template`]
  if (entries.findIndex((entry) => entry.id === id) < index) return [`${name}.id ${id} is given twice`]
  return format === null ? [`${name}.format can't be null`] : []
}

function sizeFaults(contents: TemplateContent[]): string[] {
  const bytes = contents.reduce(
    (sum, { html, text }) => sum + Buffer.byteLength(html ?? '') + Buffer.byteLength(text ?? ''),
    0,
  )
  return [
    ...(contents.length > maxContents ? [tooManyContents] : []),
    ...(bytes > maxContentBytes ? [contentsTooLarge] : []),
  ]
}

type Fields = Omit<ContentEntry, 'id' | '_destroy'>

const withoutAbsent = (fields: Fields, absent: readonly unknown[]): Partial<TemplateContent> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => !absent.includes(value)))
