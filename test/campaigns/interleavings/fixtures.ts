import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { StagingLocation } from '../../../shared/storage/staging/open-staging.ts'
import type { Json } from '../../helpers/service.ts'
import type { SubscriberTable } from '../../model/subscriber-table.ts'
import { batch, finalize, start, step } from './engine-acts.ts'
import { expectedTable } from './expected-rows.ts'
import { chunksOnly, type Side } from './side.ts'

/**
 * The state in which an interleaving begins: a list with subscribers, autoresponders, mails, and an import in some
 * state. It is made once, kept in memory, and restored for each interleaving.
 */
export interface Fixture {
  name: FixtureName
  organizationId: number
  listId: number
  importId: number
  fields: { color: number; spare: number; number: number }
  /** Subscribers that the import doesn't name, and one that it does. */
  absentId: number
  presentId: number
  /** Messages that a sender has taken. */
  taken: Json[]
  /** The organization's subscriber limit; null where there is none. */
  limit: number | null
  /** The list when the import has finished undisturbed, by the model; of an upload, one for each file that it may find. */
  expected: SubscriberTable[]
  restore: () => Promise<void>
}

export const fixtureNames = [
  ...['scheduled', 'splitting', 'importing', 'begun', 'written', 'ended'],
  ...['finalized', 'paused', 'paused before the end', 'first import', 'dead engine'],
  ...['nearly full', 'upload scheduled', 'upload pinned', 'upload on disk'],
  ...['small scheduled', 'small splitting', 'small first import', 'small upload scheduled'],
] as const
export type FixtureName = (typeof fixtureNames)[number]

/** Their imports are written whole, in one transaction. The others deactivate absent subscribers, or have chunks by now. */
export const isSmall = (name: FixtureName): boolean => name.startsWith('small ')

/** Most are in the database, which needs no folder. */
export const stagingOf = (name: FixtureName): StagingLocation['STAGING'] =>
  name === 'upload on disk' ? 'disk' : 'gridfs'

export const uploaded = { file: 'people.csv', other: 'others.csv', away: 'away.csv' }

/** The rows of an import, and of one that needs two batches. */
const rows = 40
const rowsOfTwoBatches = 3_600
const ofTwoBatches: readonly FixtureName[] = ['begun', 'dead engine', 'paused']

const email = (i: number) => `person${i}@example.com`
const linesOf = (count: number, color: string): string =>
  Array.from({ length: count }, (_, i) => `${email(i)},${color},${i}\n`).join('')
/** With rows of which one is a duplicate, and one has no identity, which makes a second chunk. */
const smallContent = (color: string): string => `${linesOf(rows, color)}${email(3)},black,3\nnobody,black,4\n`
/** The content of a second upload of the same name. */
export const replacement = linesOf(rows, 'blue')

/** Numbers of those that are on the list before the import, which names the first of them. */
const presentBefore = 5
const there = 12
/** Less than the 35 subscribers that an import adds. */
const freeQuota = 30

type Post = (path: string, body: Json) => Promise<Json>

/** Every fixture begins with the database that `keep` read. */
export async function makeFixture(name: FixtureName, side: Side, base: Kept): Promise<Fixture> {
  await putBack(side, base)
  const post: Post = async (path, body) => {
    const answer = await side.call('POST', path, body)
    if (answer.body?.success !== true) throw new Error(`${path}: ${answer.text}`)
    return answer.body.data
  }
  const isFirst = name.endsWith('first import')
  const limit = name === 'nearly full' ? there + freeQuota : null
  const organization = await post('/organizations', {
    organization: { name: `Fixture ${name}`, subscriber_limit: limit },
  })
  const { listId, fields } = await createList(post, organization.id, `Fixture ${name}`)
  const listPath = `/mailing_lists/${listId}`
  await post(`${listPath}/autoresponders`, {
    autoresponder: {
      name: 'Welcome',
      trigger: 'subscription',
      trigger_include_subscribers_from_import: true,
      content_subject: 'Hello',
      content_text: 'Good to have you.',
      use_external_delivery_setting: true,
    },
  })
  const ids: number[] = []
  for (let i = 0; i < (isFirst ? 0 : there); i += 1) {
    // The last ones are not in the file.
    const number = i < presentBefore ? i : 100_000 + i
    const subscriber = await post(`${listPath}/subscribers`, {
      subscriber: {
        email: email(number),
        custom_fields: { Color: 'red', Spare: 'x', No: String(number) },
      },
    })
    ids.push(subscriber.id)
  }
  const taken = await post('/outbox/take', { outbox: { limit: 2, lease_seconds: 3_600 } })
  const content = isSmall(name)
    ? smallContent('green')
    : linesOf(ofTwoBatches.includes(name) ? rowsOfTwoBatches : rows, 'green')
  const isUpload = name.includes('upload ')
  if (isUpload) await prepareUploads(side, organization.id, content)
  const created = await post(`${listPath}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email', 'Color', 'No'],
      file_format: { csv_has_headers: false },
      overwrite: true,
      deactivate_subscribers_not_in_import: !isFirst && !isSmall(name),
      // A callback is queued after the end, so that an engine can die in between.
      ...(name === 'small first import' ? { callback_url: 'https://example.com/ended' } : {}),
      file_source: isUpload
        ? { type: 'upload_directory', filename: uploaded.file }
        : { type: 'json', content },
    },
  })
  const contents = isUpload ? [content, replacement] : [content]
  const expected = await expectedTable(side.database.collections, created.id, contents)
  // A second list's import reserves quota of the same organization.
  if (name === 'nearly full') await createRival(post, organization.id)
  await advance(name, side, () => post(`/subscriber_imports/${created.id}/pause`, undefined))
  const kept = await keep(side)
  return {
    name,
    organizationId: organization.id,
    listId,
    importId: created.id,
    fields,
    absentId: ids.at(-1) ?? 0,
    presentId: ids[0] ?? 0,
    taken: taken.map(({ id, lease_token }: Json) => ({ id, lease_token })),
    limit,
    expected,
    restore: () => putBack(side, kept),
  }
}

async function createList(
  post: Post,
  organizationId: number,
  name: string,
): Promise<Pick<Fixture, 'listId' | 'fields'>> {
  const list = await post('/mailing_lists', { mailing_list: { name, organization_id: organizationId } })
  const field = async (definition: Json): Promise<number> =>
    (await post(`/mailing_lists/${list.id}/custom_fields`, { custom_field: definition })).id
  const fields = {
    color: await field({ name: 'Color', field_type: 'text' }),
    // No import maps it, and each one gives its default to new subscribers.
    spare: await field({ name: 'Spare', field_type: 'text', default: 'plain' }),
    number: await field({ name: 'No', field_type: 'text', required: true }),
  }
  return { listId: list.id, fields }
}

async function createRival(post: Post, organizationId: number): Promise<void> {
  const { listId } = await createList(post, organizationId, 'Rival')
  await post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email', 'Color', 'No'],
      file_format: { csv_has_headers: false },
      file_source: { type: 'json', content: linesOf(rows, 'black') },
    },
  })
}

async function prepareUploads(side: Side, organizationId: number, content: string): Promise<void> {
  await upload(side, organizationId, uploaded.other, replacement)
  await upload(side, organizationId, uploaded.file, content)
}

/** Uploads as the FTP server does on a STOR. */
export async function upload(
  side: Side,
  organizationId: number,
  name: string,
  content: string,
): Promise<void> {
  const { signal } = new AbortController()
  const one = await side
    .uploadDirectory(organizationId)
    .beginUpload(name, { append: false, start: undefined })
  try {
    await one.open(signal)
    await one.receive(
      (async function* () {
        yield Buffer.from(content)
      })(),
    )
    await one.prepare()
    await one.publish(signal)
  } finally {
    await one.end()
  }
}

/** Runs the import, and its rival where there is one, up to the state of the fixture. */
async function advance(name: FixtureName, whole: Side, pause: () => Promise<unknown>): Promise<void> {
  const side = { ...whole, context: { ...whole.context, pool: chunksOnly } }
  const importing = async () => {
    await start(side)
    while (await step(side));
  }
  const stages: Record<FixtureName, () => Promise<unknown>> = {
    scheduled: async () => undefined,
    splitting: () => start(side),
    importing,
    'first import': importing,
    'nearly full': importing,
    begun: async () => {
      await importing()
      await batch(side, 1)
    },
    'dead engine': async () => {
      await stages.begun()
      await leaveToDeadEngine(side)
    },
    paused: async () => {
      await stages.begun()
      await pause()
    },
    written: async () => {
      await importing()
      while (await batch(side));
    },
    'paused before the end': async () => {
      await stages.written()
      await pause()
    },
    ended: async () => {
      await stages.written()
      await step(side)
    },
    finalized: async () => {
      await stages.ended()
      await finalize(side)
    },
    'upload scheduled': async () => undefined,
    'upload pinned': () => start(side),
    'upload on disk': () => start(side),
    'small scheduled': async () => undefined,
    'small splitting': () => start(side),
    'small first import': async () => undefined,
    'small upload scheduled': async () => undefined,
  }
  await stages[name]()
}

async function leaveToDeadEngine({ database }: Side): Promise<void> {
  const { chunks, engines } = database.collections
  await engines.insertOne({
    ...{ _id: 'dead', number: 900, host: 'elsewhere', process_id: 1, dead: true, session_ids: [] },
    ...{ sees_files: true, started_at: new Date(0), lease_until: new Date(0), lease_election: null },
  })
  await chunks.updateOne(
    { state: 'ready' },
    {
      $set: {
        state: 'running',
        'lease.token': 'lost',
        'lease.holder': 'dead',
        'lease.until': new Date(Date.now() + 3_600_000),
      },
    },
  )
}

/** Ids that were handed out stay handed out, as processes keep some in hand. */
const lasting = new Set(['counters', 'schema', 'installation', 'wake_ups', 'auth_failures'])

/** Everything that is put back: documents by collection, and files of the folder by path. */
export interface Kept {
  documents: Map<string, object[]>
  files: Map<string, Buffer>
}

const keptFolders = ['uploads', 'staging']

export async function keep({ database, folder }: Pick<Side, 'database' | 'folder'>): Promise<Kept> {
  const { db } = database
  const kept: Kept = { documents: new Map(), files: new Map() }
  for (const { name } of await db.listCollections({}, { nameOnly: true }).toArray())
    if (!lasting.has(name)) kept.documents.set(name, await db.collection(name).find().toArray())
  for (const top of keptFolders)
    for (const entry of await filesIn(path.join(folder, top))) kept.files.set(entry, await readFile(entry))
  return kept
}

async function putBack({ database, folder }: Side, { documents, files }: Kept): Promise<void> {
  const { db } = database
  await Promise.all(
    [...documents].map(async ([name, all]) => {
      await db.collection(name).deleteMany({}, { writeConcern: { w: 1 } })
      if (all.length > 0) await db.collection(name).insertMany(all, { bypassDocumentValidation: true })
    }),
  )
  for (const top of keptFolders)
    for (const entry of await filesIn(path.join(folder, top))) await rm(entry, { force: true })
  for (const [entry, content] of files) {
    await mkdir(path.dirname(entry), { recursive: true })
    await writeFile(entry, content)
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name))
}
