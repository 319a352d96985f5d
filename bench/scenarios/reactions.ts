import { mkdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { nextIds } from '../../shared/database.ts'
import { batchRecords } from '../../shared/records/chunk-records.ts'
import {
  autoresponderDefaults,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../shared/schemas/autoresponder.ts'
import { ring } from '../../shared/store/doorbell.ts'
import { customFields, SubscriberFile } from '../datasets/subscriber-file.ts'
import { costOf, describeCost } from '../load/cost.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { startImport, writeRows } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import type { Outcome, Study, StudyOptions } from '../scenario.ts'

/**
 * A million reactions that all fall due in one moment, because their autoresponder is unpaused, while imports run: how
 * fast they get into the outbox, and what the imports lose by it.
 */
export const reactions: Study = {
  name: 'reactions',
  summary: 'reactions that are due, on their way into the outbox beside running imports',
  async run(options) {
    const rounds: Outcome[] = []
    for (let round = 1; round <= options.rounds; round += 1) {
      const folder = path.join(options.folder, `round-${round}`)
      await mkdir(folder)
      try {
        rounds.push(await onMeasuredService(folder, (service) => measure(service, options)))
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    }
    return {
      isRight: rounds.every(({ isRight }) => isRight),
      result: { rounds: rounds.map(({ result }) => result) },
      goals: rounds.flatMap(({ goals = [] }) => goals),
      timelines: [
        {
          name: 'reactions and imports',
          rounds: rounds.flatMap(({ timelines = [] }) => timelines.flatMap((kind) => kind.rounds)),
        },
      ],
    }
  },
}

const usualAmount = 1_000_000
const importRows = 1_000_000
/** Imports into as many lists: together they last longer than what is measured. */
const importCount = 8
const leastPerSecond = 10_000
const leastShareOfImport = 0.5

async function measure(service: MeasuredService, { rows, seed, seconds, say }: StudyOptions) {
  const amount = rows ?? usualAmount
  const { database, uploads } = service
  await mkdir(uploads, { recursive: true })
  const file = new SubscriberFile({ rows: importRows, seed, defects: false })
  await writeRows(path.join(uploads, 'rows.csv'), file, [{ first: 0, count: importRows }])
  say(`queueing ${amount.toLocaleString('en')} reactions of a paused autoresponder ...`)
  const autoresponderId = await queueReactions(service, amount)

  const imports: number[] = []
  for (let i = 0; i < importCount; i += 1) {
    const listId = await createList(service, `Imported ${i}`)
    const { id } = await startImport(service, listId, { type: 'upload_directory', filename: 'rows.csv' })
    imports.push(id)
  }
  const imported = async () =>
    (await views(service, imports)).reduce((sum, view) => sum + view.stats.records_imported, 0)
  while ((await imported()) === 0) await sleep(200)

  say(`imports alone (load average ${load()}) ...`)
  const before = await rateOf(imported, async () => sleep(seconds * 4_000))
  say(`with the reactions that are due (load average ${load()}) ...`)
  await database.collections.autoresponders.updateOne({ _id: autoresponderId }, { $set: { paused: false } })
  await ring(database.collections, 'unpaused')
  const startedAt = performance.now()
  // Of all that goes on, the imports included.
  const {
    done: beside,
    cost,
    timeline,
  } = await costOf(service, amount, () =>
    rateOf(imported, async () => {
      while ((await database.collections.outbox.estimatedDocumentCount()) < amount) await sleep(100)
    }),
  )
  const perSecond = amount / ((performance.now() - startedAt) / 1000)
  say(`imports alone once more (load average ${load()}) ...`)
  const after = await rateOf(imported, async () => sleep(seconds * 4_000))
  const stillRuns = (await views(service, imports)).some((view) => view.state === 'importing')
  for (const id of imports)
    await service.client.post(`/subscriber_imports/${id}/cancel`).catch(() => undefined)

  const due = await database.collections.reactions.countDocuments({ state: 'due' })
  // Before and after: what the machine does in one half minute, it needn't do in the next.
  const alone = (before + after) / 2
  const share = beside / alone
  const goals = [
    {
      what: `${Math.round(perSecond).toLocaleString('en')} reactions/s, at least ${leastPerSecond.toLocaleString('en')}`,
      isMet: perSecond >= leastPerSecond,
    },
    {
      what: `imports did ${Math.round(beside).toLocaleString('en')} rows/s beside them, ${Math.round(alone).toLocaleString('en')} alone: ${share.toFixed(2)} of their speed, at least ${leastShareOfImport}`,
      isMet: share >= leastShareOfImport,
    },
  ]
  say(`of reactions and imports together, a reaction: ${describeCost(cost)}`)
  for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
  if (!stillRuns) say('the imports ended before all was measured: take fewer reactions (--rows)')
  return {
    isRight: due === amount && stillRuns,
    result: {
      mongodb: await serverVersion(database.client),
      reactions: amount,
      reactions_per_second: perSecond,
      import_rows_per_second: { alone_before: before, alone_after: after, beside },
      cost_of_all_a_reaction: cost,
    },
    goals,
    timelines: [{ name: 'reactions and imports', rounds: [{ ...timeline, rows: null }] }],
  }
}

/** How much `count` grows in a second while `work` lasts. */
async function rateOf(count: () => Promise<number>, work: () => Promise<void>): Promise<number> {
  const [before, startedAt] = [await count(), performance.now()]
  await work()
  return ((await count()) - before) / ((performance.now() - startedAt) / 1000)
}

const views = (service: MeasuredService, ids: number[]): Promise<ImportView[]> =>
  Promise.all(ids.map((id) => service.client.get<ImportView>(`/subscriber_imports/${id}`)))

async function createList({ client }: MeasuredService, name: string): Promise<number> {
  const { id } = await client.post<{ id: number }>('/mailing_lists', { mailing_list: { name } })
  for (const field of customFields)
    await client.post(`/mailing_lists/${id}/custom_fields`, { custom_field: field })
  return id
}

/** As imports leave them: all of a batch are due at one moment. */
async function queueReactions(service: MeasuredService, amount: number): Promise<number> {
  const { collections } = service.database
  const listId = await createList(service, 'Reacting')
  const autoresponderId = await nextIds(collections, 'autoresponder')
  const autoresponder: AutoresponderDocument = {
    _id: autoresponderId,
    organization_id: 1,
    mailing_list_id: listId,
    name: 'Paused',
    name_key: 'paused',
    trigger: 'subscription',
    ...autoresponderDefaults,
    paused: true,
    paused_at: new Date(),
    trigger_include_subscribers_from_import: true,
    created_at: new Date(),
  }
  await collections.autoresponders.insertOne(autoresponder)
  const firstId = await nextIds(collections, 'reaction', amount)
  const startMs = Date.now() - 86_400_000
  for (let done = 0; done < amount; done += 10_000) {
    const documents = Array.from({ length: Math.min(10_000, amount - done) }, (_, i): ReactionDocument => {
      const number = done + i
      return {
        _id: `${number + 1}:${autoresponderId}:import 1`,
        id: firstId + number,
        organization_id: 1,
        mailing_list_id: listId,
        autoresponder_id: autoresponderId,
        subscriber_id: number + 1,
        import_id: 1,
        state: 'queued',
        due_at: new Date(startMs + Math.floor(number / batchRecords) * 50),
        created_at: new Date(),
      }
    })
    await collections.reactions.insertMany(documents, { ordered: false, bypassDocumentValidation: true })
  }
  return autoresponderId
}

const load = () => loadavg()[0]!.toFixed(1)
