import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { FieldDefinition } from '../../shared/contract/schemas/custom-field.ts'
import { logKinds, type ContentFormat, type LogKind } from '../../shared/contract/schemas/import.ts'
import { subscriberStatuses, type SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { controlPlaneOrigin, basic, bootstrapKey, type Json, type Service } from '../helpers/service.ts'
import { decode } from '../model/character-set.ts'
import { emailKey } from '../model/email-address.ts'
import { splitFile } from '../model/records.ts'
import type { ExpectedLogFormat, Subscriber, SubscriberTable } from '../model/subscriber-table.ts'

/**
 * How an import ended in the service. The API is asked for everything but the table, which is read from the database.
 */
export interface ObservedEnd {
  view: Json
  logs: Partial<Record<LogKind, string>>
  /** Cells of each failed record; the last two are the line and the message. */
  failedLog: string[][]
  table: SubscriberTable
  /** Contradictions within the documents. */
  flaws: string[]
}

export async function observe(
  service: Service,
  importId: number,
  observed: { listId: number; fields: FieldDefinition[]; format: LogFormat; hasPrimaryKey: boolean },
): Promise<ObservedEnd> {
  const view = await service.get(`/subscriber_imports/${importId}`)
  const logs: ObservedEnd['logs'] = {}
  let failedLog: string[][] = []
  const flaws: string[] = []
  for (const kind of logKinds) {
    if (view.stats.subscribers[kind] === 0) continue
    if (kind === 'failed') {
      const { format } = observed
      const plain = textOfLog(await logReply(service, importId, kind), format, flaws)
      const lined = textOfLog(await logReply(service, importId, kind, '?line=true'), format, flaws)
      failedLog = readFailedLog(lined, format)
      const withoutLine = failedLog.map((cells) => cells.toSpliced(-2, 1))
      if (!isDeepStrictEqual(withoutLine, readFailedLog(plain, format)))
        flaws.push('the failed log with lines has other cells than the one without')
      for (const text of [plain, lined]) flaws.push(...wrongEnclosures(text, format))
    } else logs[kind] = (await logReply(service, importId, kind)).bytes.toString('utf8')
  }
  const documents = await service.collections.subscribers.find({ mailing_list_id: observed.listId }).toArray()
  return {
    view,
    logs,
    failedLog,
    table: tableOf(documents, observed.fields),
    flaws: [
      ...flaws,
      ...(await wrongCounters(service, observed.listId, documents)),
      ...documents.flatMap((document) => wrongDocument(document, observed.hasPrimaryKey)),
    ],
  }
}

interface LogReply {
  bytes: Buffer
  contentType: string
}

async function logReply(service: Service, importId: number, kind: LogKind, query = ''): Promise<LogReply> {
  const base = controlPlaneOrigin(service)
  const reply = await fetch(`${base}/svc/api/v2/subscriber_imports/${importId}/logs/${kind}${query}`, {
    headers: { authorization: basic(`api:${bootstrapKey}`) },
  })
  return {
    bytes: Buffer.from(await reply.arrayBuffer()),
    contentType: reply.headers.get('content-type') ?? '',
  }
}

/** The format of the failed log, by the model. */
type LogFormat = ExpectedLogFormat &
  Pick<ContentFormat, 'csv_field_enclosure' | 'csv_field_escape' | 'date_format'>

const byteOrderMark = '\xef\xbb\xbf'
const noLimits = { recordBytes: Infinity, enclosedBytes: Infinity, enclosedLines: Infinity }

/** The log from its first record on, a character a byte; notes where its beginning or `Content-Type` is wrong. */
function textOfLog({ bytes, contentType }: LogReply, format: LogFormat, flaws: string[]): string {
  const separatorLine = format.hasSeparatorLine ? `sep=${format.separator}\n` : ''
  const beginning = `${format.hasMark ? byteOrderMark : ''}${separatorLine}${format.skippedText}`
  const text = bytes.toString('latin1')
  if (!text.startsWith(beginning))
    flaws.push(
      `the failed log begins with ${JSON.stringify(text.slice(0, 20))}, expected ${JSON.stringify(beginning)}`,
    )
  if (contentType.toLowerCase() !== `text/csv; charset=${format.set}`)
    flaws.push(`the failed log has the type ${contentType}, expected ${format.set}`)
  return text.slice(beginning.length)
}

/** The log as an import with the same settings would read it, were it not for long lines. */
const readFailedLog = (text: string, format: LogFormat): string[][] =>
  rawCellsOf(text, format).map((cells) => cells.map((cell) => decode(cell, format.set)))

const rawCellsOf = (text: string, format: LogFormat): string[][] =>
  splitFile(
    text,
    { ...format, csv_field_separator: format.separator, csv_has_headers: false },
    noLimits,
  ).records.map(({ cells }) => cells)

/**
 * "Every cell that holds the enclosure, the separator, CR or LF, or begins or ends with a blank or tab, with the
 * enclosure doubled inside; records end with LF" (beyond 1).
 */
function wrongEnclosures(text: string, format: LogFormat): string[] {
  const { separator, csv_field_enclosure: enclosure, csv_field_escape: escape } = format
  const needsEnclosure = (cell: string) =>
    (escape !== null && cell.trim() === '\\N') ||
    [separator, enclosure, '\r', '\n'].some((character) => cell.includes(character)) ||
    /^[ \t]|[ \t]$/.test(cell)
  const escaped = (cell: string) => (escape === null ? cell : cell.replaceAll('\\', '\\\\'))
  const written = (cell: string) =>
    needsEnclosure(cell)
      ? enclosure + escaped(cell).replaceAll(enclosure, enclosure + enclosure) + enclosure
      : cell
  const expected = rawCellsOf(text, format)
    .map((cells) => `${cells.map(written).join(separator)}\n`)
    .join('')
  return text === expected ? [] : ['the failed log is not enclosed as RFC 4180 has it']
}

export function tableOf(documents: SubscriberDocument[], fields: FieldDefinition[]): SubscriberTable {
  return new Map(
    documents.map((document) => {
      const subscriber = subscriberOf(document, fields)
      return [subscriber.identity, subscriber]
    }),
  )
}

/** "What a list doesn't use isn't stored: no `format` means `both`, no `confirmed` means false, no custom field means null." */
function subscriberOf(document: SubscriberDocument, fields: FieldDefinition[]): Subscriber {
  return {
    identity: document._id.slice(document._id.indexOf(':') + 1),
    email: document.email,
    status: document.status,
    subscribeTime: document.subscribe_time,
    subscribeIp: document.subscribe_ip ?? null,
    removeTime: document.remove_time ?? null,
    removeIp: document.remove_ip ?? null,
    format: document.format ?? 'both',
    confirmed: document.confirmed ?? false,
    confirmTime: document.confirm_time ?? null,
    values: Object.fromEntries(fields.map(({ id }) => [id, document.custom_fields[String(id)] ?? null])),
  }
}

export async function wrongCounters(
  service: Service,
  listId: number,
  documents: SubscriberDocument[],
): Promise<string[]> {
  const stripes = await service.collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  return subscriberStatuses.flatMap((status) => {
    const counted = stripes.reduce((sum, stripe) => sum + stripe[status], 0)
    const there = documents.filter((document) => document.status === status).length
    return counted === there ? [] : [`the counters say ${counted} ${status}, the table has ${there}`]
  })
}

function wrongDocument(document: SubscriberDocument, hasPrimaryKey: boolean): string[] {
  const expected = hasPrimaryKey ? emailKey(document.email) : undefined
  return document.email_key === expected
    ? []
    : [`${document._id} has the email_key ${document.email_key}, its email's is ${expected}`]
}

/** Waits for many imports with one question at a time. */
export class ImportEnds {
  #waiting = new Map<number, () => void>()
  #service: Service
  #isAsking = false

  constructor(service: Service) {
    this.#service = service
  }

  async of(importId: number, timeoutMs = 60_000): Promise<void> {
    const ended = new Promise<'ended'>((resolve) => {
      this.#waiting.set(importId, () => {
        resolve('ended')
      })
    })
    void this.#ask()
    const timeout = new AbortController()
    const first = await Promise.race([
      ended,
      sleep(timeoutMs, 'timeout' as const, { signal: timeout.signal }).catch(() => 'aborted' as const),
    ])
    timeout.abort()
    if (first === 'timeout') throw new Error(`import ${importId} didn't end within ${timeoutMs / 1000} s`)
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    while (this.#waiting.size > 0) {
      const ended = await this.#service.collections.imports
        .find(
          { _id: { $in: [...this.#waiting.keys()] }, state: { $in: ['finished', 'failed', 'cancelled'] } },
          { projection: { _id: 1 } },
        )
        .toArray()
      for (const { _id } of ended) {
        this.#waiting.get(_id)?.()
        this.#waiting.delete(_id)
      }
      await sleep(10)
    }
    this.#isAsking = false
  }
}
