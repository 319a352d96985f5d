import type { TemplateContent } from '../../../shared/contract/schemas/campaign-template.ts'
import type { RequestError } from '../../api/request-error.ts'
import {
  contentsTooLarge,
  faultyContents,
  formatIsNull,
  givenTwice,
  maxContentBytes,
  tooManyContents,
} from './refusals.ts'
import { maxContents, type ContentEntry, type TemplateChange } from './schemas.ts'

/** Applies a request to the stored contents of a template. */

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
  problems: RequestError[],
): TemplateContent[] {
  if (change.contents !== undefined && hasSingleFields(change)) {
    problems.push(faultyContents.contentsAndOne())
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
): RequestError[] {
  if (id === undefined || id === null)
    return isRemoved === true ? [faultyContents.removalWithoutId(index)] : []
  if (!stored.some((content) => content.id === id)) return [faultyContents.noSuchContent(index, id)]
  if (entries.findIndex((entry) => entry.id === id) < index) return [givenTwice(index, id)]
  return format === null ? [formatIsNull(index)] : []
}

function sizeFaults(contents: TemplateContent[]): RequestError[] {
  const bytes = contents.reduce(
    (sum, { html, text }) => sum + Buffer.byteLength(html ?? '') + Buffer.byteLength(text ?? ''),
    0,
  )
  return [
    ...(contents.length > maxContents ? [tooManyContents()] : []),
    ...(bytes > maxContentBytes ? [contentsTooLarge()] : []),
  ]
}

type Fields = Omit<ContentEntry, 'id' | '_destroy'>

const withoutAbsent = (fields: Fields, absent: readonly unknown[]): Partial<TemplateContent> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => !absent.includes(value)))
