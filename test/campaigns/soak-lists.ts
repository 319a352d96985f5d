import { randomBytes, randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json, Service } from '../helpers/service.ts'
import { anyOf, type SoakClient } from './soak-load.ts'

/**
 * The lists of a soak, with a record of their expected content. Imports write rows `row.N`, field A; requests write
 * field B of the same rows, and create, change and delete others.
 */
interface SoakList {
  id: number
  /**
   * For each row the last import that wrote it, by the number in field A. Rows of an unfinished import are left out.
   */
  writtenBy: number[]
  /** For each row the last value of field B that a request wrote. */
  changed: Map<number, number>
  /** For each address the last value of field B that a request wrote; null where it was deleted. */
  created: Map<string, number | null>
}

interface DoneImport {
  id: number
  view: Json
  expected: Record<string, number>
}

const rowAddress = (row: number): string => `row.${row}@example.com`
const note = 'as long as what people write into such fields'

/** Runs imports of one kind of source, one after the other, with pauses three times as long as each took. */
export class ImportLane {
  list: SoakList | null = null
  readonly lists: SoakList[] = []
  readonly done: DoneImport[] = []
  readonly #client: SoakClient
  readonly #source: 'json' | 'upload_directory' | 'url'
  readonly #web: { files: Map<string, Buffer>; origin: string }
  readonly #size: { rows: number; listRows: number }

  constructor(
    client: SoakClient,
    source: ImportLane['source'],
    web: { files: Map<string, Buffer>; origin: string },
    size: { rows: number; listRows: number },
  ) {
    this.#client = client
    this.#source = source
    this.#web = web
    this.#size = size
  }

  get source(): 'json' | 'upload_directory' | 'url' {
    return this.#source
  }

  async run(stopping: AbortSignal): Promise<void> {
    for (let number = 1; !stopping.aborted; number += 1) {
      if (this.list === null || this.list.writtenBy.length > this.#size.listRows) await this.#newList()
      const beganAt = Date.now()
      await this.#import(this.list!, number)
      await rest(Math.max(500, 3 * (Date.now() - beganAt)), stopping)
    }
  }

  async #newList(): Promise<void> {
    const name = `Soak ${this.#source} ${randomBytes(4).toString('hex')}`
    // List names are unique, so a creation that got no answer isn't repeated.
    const answer = await this.#client.ask('POST', '/mailing_lists', { mailing_list: { name } })
    const id =
      answer.body.data?.id ??
      (await this.#client.data('GET', '/mailing_lists')).find((list: Json) => list.name === name).id
    for (const field of [
      { name: 'A', field_type: 'number' },
      { name: 'B', field_type: 'number' },
      { name: 'Note', field_type: 'text' },
    ]) {
      const { body, tries, text } = await this.#client.ask('POST', `/mailing_lists/${id}/custom_fields`, {
        custom_field: field,
      })
      if (body.success !== true && tries === 1) throw new Error(text)
    }
    this.list = { id, writtenBy: [], changed: new Map(), created: new Map() }
    this.lists.push(this.list)
  }

  async #import(list: SoakList, number: number): Promise<void> {
    const known = list.writtenBy.length
    const rows = randomInt(Math.ceil(this.#size.rows / 8), this.#size.rows)
    const from = Math.max(0, known - Math.floor(rows * Math.random()))
    const overwrite = Math.random() < 0.5
    const lines = Array.from({ length: rows }, (_, i) => `${rowAddress(from + i)},${number},${note}\n`)
    const [twice, wrong] = [randomInt(1, 50), randomInt(1, 50)]
    for (let i = 0; i < twice; i += 1) lines.push(`${rowAddress(from + randomInt(rows))},0,again\n`)
    for (let i = 0; i < wrong; i += 1) lines.push(`nobody ${i},0,no address\n`)
    const content = Buffer.from(['email,A,Note\n', ...lines].join(''))

    const name = `soak-${this.#source}-${list.id}-${number}.csv`
    if (this.#source === 'upload_directory') await this.#client.upload(name, content)
    if (this.#source === 'url') this.#web.files.set(`/${name}`, content)
    const source = {
      json: { content: content.toString() },
      upload_directory: { filename: name },
      url: { url: `${this.#web.origin}/${name}` },
    }[this.#source]
    const { id } = await this.#client.data(
      'POST',
      `/mailing_lists/${list.id}/subscriber_imports`,
      {
        subscriber_import: {
          column_mapping: ['email', 'A', 'Note'],
          overwrite,
          file_source: { type: this.#source, ...source },
        },
      },
      { 'Idempotency-Key': name },
    )
    const view = await this.#client.untilEnd(id)
    this.#web.files.delete(`/${name}`)
    if (this.#source === 'upload_directory') await this.#client.remove(name)

    const before = known - from
    this.done.push({
      id,
      view,
      expected: {
        added: rows - before,
        ...(before === 0 ? {} : { [overwrite ? 'updated' : 'skipped_overwrite']: before }),
        failed: wrong,
        skipped_duplicate: twice,
      },
    })
    for (let row = from; row < from + rows; row += 1)
      if (row >= known || overwrite) list.writtenBy[row] = number
    this.#client.note(`imports by ${this.#source}`)
  }
}

/**
 * Requests that read and change the rows that imports write at the same time. Requester `own` of `all` has its own
 * share of the rows.
 */
export async function sendRequests(
  client: SoakClient,
  lanes: ImportLane[],
  { own, all, pauseMs }: { own: number; all: number; pauseMs: number },
  stopping: AbortSignal,
): Promise<void> {
  for (let number = 1; !stopping.aborted; number += 1) {
    await rest(pauseMs * (0.5 + Math.random()), stopping)
    const list = anyOf(lanes).list
    const rows = Math.floor((list?.writtenBy.length ?? 0) / all) * all
    if (list === null || rows === 0) continue
    const row = Math.floor(Math.random() * (rows / all)) * all + own
    const base = `/mailing_lists/${list.id}/subscribers`
    const kind = Math.random()
    if (kind < 0.35) {
      await client.data('GET', `${base}/${rowAddress(row)}`)
    } else if (kind < 0.55) {
      const email = `made.${own}.${number}@example.com`
      const body = { subscriber: { email, custom_fields: { B: number } } }
      const { body: reply, tries, text } = await client.ask('POST', base, body)
      // The first of several tries may have done it.
      if (reply.success !== true && !(tries > 1 && text.includes('already has'))) throw new Error(text)
      list.created.set(email, number)
    } else if (kind < 0.8) {
      const made = [...list.created.keys()].filter((email) => email.startsWith(`made.${own}.`))
      const email = Math.random() < 0.3 && made.length > 0 ? anyOf(made.slice(-20)) : rowAddress(row)
      if (list.created.get(email) === null) continue
      const [{ id }] = await client.data('GET', `${base}/${email}`)
      await client.data('PUT', `${base}/${id}`, { subscriber: { custom_fields: { B: number } } })
      if (list.created.has(email)) list.created.set(email, number)
      else list.changed.set(row, number)
    } else if (kind < 0.84) {
      const candidates = [...list.created].filter(
        ([email, value]) => value !== null && email.startsWith(`made.${own}.`),
      )
      if (candidates.length === 0) continue
      const [email] = anyOf(candidates)
      const { body: reply, tries, text } = await client.ask('DELETE', `${base}/${email}`)
      if (reply.success !== true && !(tries > 1 && reply.error_code === 'not_found')) throw new Error(text)
      list.created.set(email, null)
    } else if (kind < 0.9) {
      await client.data('GET', '/subscriber_counts')
    } else if (kind < 0.95) {
      await client.data('GET', `${base}?per_page=100`)
    } else {
      await client.data('GET', '/subscriber_imports?per_page=100')
    }
  }
}

async function rest(ms: number, stopping: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal: stopping }).catch(() => undefined)
}

/** Names what is wrong with a list: table, counters and record must agree. */
export async function problemsOf(service: Service, list: SoakList): Promise<string[]> {
  const problems: string[] = []
  const note = (text: string) => {
    if (problems.length < 10) problems.push(`list ${list.id}: ${text}`)
  }
  const fields: Json[] = await service.get(`/mailing_lists/${list.id}/custom_fields`)
  const fieldId = (name: string): number => fields.find((field) => field.name === name).id
  const [a, b] = [fieldId('A'), fieldId('B')]
  let rows = 0
  let made = 0
  const ids = new Set<number>()
  const table = service.collections.subscribers
    .find({ mailing_list_id: list.id })
    .project<{ id: number; email: string; custom_fields: Record<string, number> }>({
      id: 1,
      email: 1,
      custom_fields: 1,
    })
  for await (const { id, email, custom_fields } of table) {
    ids.add(id)
    const row = /^row\.(\d+)@/.exec(email)?.[1]
    if (row === undefined) {
      made += 1
      const value = list.created.get(email)
      if (value === undefined || value === null) note(`${email} is there`)
      else if (custom_fields[b] !== value) note(`${email} has B ${custom_fields[b]}, not ${value}`)
      continue
    }
    rows += 1
    if (custom_fields[a] !== list.writtenBy[Number(row)])
      note(`${email} has A ${custom_fields[a]}, not ${list.writtenBy[Number(row)]}`)
    if (custom_fields[b] !== list.changed.get(Number(row)))
      note(`${email} has B ${custom_fields[b]}, not ${list.changed.get(Number(row))}`)
  }
  const alive = [...list.created.values()].filter((value) => value !== null).length
  if (rows !== list.writtenBy.length) note(`${rows} rows, not ${list.writtenBy.length}`)
  if (made !== alive) note(`${made} created by requests, not ${alive}`)
  if (ids.size !== rows + made) note(`${ids.size} ids of ${rows + made} subscribers`)
  const { mailing_lists } = await service.get('/subscriber_counts')
  const counted = mailing_lists.find((entry: Json) => entry.mailing_list.id === list.id).counts
  if (counted.active !== rows + made) note(`${counted.active} counted, ${rows + made} there`)
  return problems
}
