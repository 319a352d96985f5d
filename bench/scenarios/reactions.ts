import { copyFile, mkdir, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { batchRecords } from '../../shared/csv/chunk-records.ts'
import {
  autoresponderDefaults,
  type AutoresponderDocument,
  type ReactionDocument,
} from '../../shared/contract/schemas/autoresponder.ts'
import { notifyEngines } from '../../shared/store/wake-up.ts'
import { customFields, SubscriberFile } from '../datasets/subscriber-file.ts'
import { costOf, costOfRounds, describeCosts, type Cost } from '../load/cost.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { startImport, writeRows } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import { two, whole, withRange } from '../report/text.ts'
import type { Goal, Outcome, Study, StudyOptions, Timeline } from '../scenario.ts'
import { latencyOf, spread, type Spread } from '../statistics.ts'

/**
 * Reactions that all fall due in one moment, because their autoresponder is unpaused: how fast they get into the outbox
 * while imports run, and what the imports lose by it; then as many with nothing else going on, which says what one
 * costs. Each round has a service of its own.
 */
export const reactions: Study = {
  name: 'reactions',
  summary: 'reactions that are due, on their way into the outbox, beside running imports and alone',
  quick: ['--rows', '30000', '--rounds', '1', '--seconds', '1'],
  async run(options) {
    const { rows, rounds, seed, folder, say } = options
    const amount = rows ?? usualAmount
    const dataset = new SubscriberFile({ rows: importRows, seed, defects: false })
    const file = path.join(folder, 'rows.csv')
    await writeRows(file, dataset, [{ first: 0, count: importRows }])
    const measured: Round[] = []
    for (let round = 1; round <= rounds && measured.every(({ wrong }) => wrong === null); round += 1) {
      say(`round ${round}, load average ${loadavg()[0]!.toFixed(1)}`)
      measured.push(await runRound(path.join(folder, `round-${round}`), file, amount, options))
    }
    return report(measured, amount, say)
  },
}

const usualAmount = 200_000
const importRows = 1_000_000
/** Imports into as many lists: together they last longer than what is measured. */
const importCount = 8
const minPerSecond = 10_000
const minShareOfImport = 0.5

interface Round {
  mongodb: string
  beside: Moved
  alone: Moved
  importRowsPerSecond: { before: number; beside: number; after: number }
  wrong: string | null
}

interface Moved {
  perSecond: number
  /** A reaction, with all that went on meanwhile. */
  cost: Cost
  timeline: Timeline
  /** Of each reaction, from the unpausing to the outbox. */
  milliseconds: number[]
}

async function runRound(folder: string, file: string, amount: number, options: StudyOptions): Promise<Round> {
  await mkdir(folder)
  try {
    return await onMeasuredService(folder, async (service) => {
      await mkdir(service.uploads, { recursive: true })
      await copyFile(file, path.join(service.uploads, 'rows.csv'))
      return measureRound(service, amount, options)
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function measureRound(
  service: MeasuredService,
  amount: number,
  { seconds, say }: StudyOptions,
): Promise<Round> {
  const { client, database } = service
  const listId = await createList(service, 'Reacting')
  const first = await queueReactions(service, listId, amount)

  const imports: number[] = []
  for (let i = 0; i < importCount; i += 1) {
    const listId = await createList(service, `Imported ${i}`)
    const { id } = await startImport(service, listId, { type: 'upload_directory', filename: 'rows.csv' })
    imports.push(id)
  }
  const imported = async () =>
    (await views(service, imports)).reduce((sum, view) => sum + view.stats.records_imported, 0)
  while ((await imported()) === 0) await sleep(200)

  // Before and after: what the machine does in one minute, it needn't do in the next.
  const before = await rateOf(imported, () => sleep(seconds * 2_000))
  const beside = await rateOf(imported, () => moveReactions(service, first, amount))
  const after = await rateOf(imported, () => sleep(seconds * 2_000))
  const stillRuns = (await views(service, imports)).some((view) => view.state === 'importing')
  for (const id of imports) await client.post(`/subscriber_imports/${id}/cancel`).catch(() => undefined)
  while ((await database.collections.imports.countDocuments({ settled: false })) > 0) await sleep(250)

  const alone = await moveReactions(service, await queueReactions(service, listId, amount), amount)
  const due = await database.collections.reactions.countDocuments({ state: 'due' })
  const wrong = !stillRuns
    ? 'the imports ended before all was measured: take fewer reactions (--rows)'
    : due === 2 * amount
      ? null
      : `${due} reactions are due, not ${2 * amount}`
  say(
    `${whole(beside.done.perSecond)} reactions/s beside imports, ${whole(alone.perSecond)} alone; imports ${whole(before.perSecond)} rows/s before, ${whole(beside.perSecond)} beside them, ${whole(after.perSecond)} after${wrong === null ? '' : `  WRONG RESULT: ${wrong}`}`,
  )
  say(`with the imports  ${describeCosts([beside.done.cost], 'a reaction')}`)
  say(`alone             ${describeCosts([alone.cost], 'a reaction')}`)
  return {
    mongodb: await serverVersion(database.client),
    beside: beside.done,
    alone,
    importRowsPerSecond: {
      before: before.perSecond,
      beside: beside.perSecond,
      after: after.perSecond,
    },
    wrong,
  }
}

/** How much `count` grows in a second while `work` lasts. */
async function rateOf<T>(
  count: () => Promise<number>,
  work: () => Promise<T>,
): Promise<{ perSecond: number; done: T }> {
  const [before, startedAt] = [await count(), performance.now()]
  const done = await work()
  return { perSecond: ((await count()) - before) / ((performance.now() - startedAt) / 1000), done }
}

/** From the moment in which their autoresponder is unpaused. */
async function moveReactions(
  service: MeasuredService,
  autoresponderId: number,
  amount: number,
): Promise<Moved> {
  const { collections } = service.database
  const before = await collections.outbox.estimatedDocumentCount()
  const milliseconds: number[] = []
  const work = async () => {
    await collections.autoresponders.updateOne({ _id: autoresponderId }, { $set: { paused: false } })
    await notifyEngines(collections, 'unpaused')
    const startedAt = performance.now()
    while (milliseconds.length < amount) {
      await sleep(100)
      const moved = (await collections.outbox.estimatedDocumentCount()) - before
      const elapsedMs = performance.now() - startedAt
      while (milliseconds.length < moved) milliseconds.push(elapsedMs)
    }
    return amount / (milliseconds.at(-1)! / 1000)
  }
  const looks = { progress: () => milliseconds.length }
  const { done: perSecond, cost, timeline } = await costOf(service, amount, work, looks)
  return { perSecond, cost, timeline, milliseconds }
}

function report(measured: Round[], amount: number, say: (text: string) => void): Outcome {
  const over = (figure: (round: Round) => number) => spread(measured.map(figure))
  const share = over(({ importRowsPerSecond: { before, beside, after } }) => beside / ((before + after) / 2))
  const perSecond = over(({ beside }) => beside.perSecond)
  const figures = {
    reactions_per_second: perSecond,
    reactions_per_second_alone: over(({ alone }) => alone.perSecond),
    share_of_import_speed: share,
  }
  for (const [name, figure] of Object.entries(figures))
    say(`${name.replaceAll('_', ' ').padEnd(28)}${withRange(figure, figure.most < 10 ? two : whole)}`)
  // What one costs is known where nothing else goes on.
  const costs = measured.map(({ alone }) => alone.cost)
  say(`alone: ${describeCosts(costs, 'a reaction')}`)
  const goals = [
    goal(
      `${withRange(perSecond, whole)} reactions/s beside imports, at least ${whole(minPerSecond)}`,
      perSecond,
      minPerSecond,
    ),
    goal(
      `imports had ${withRange(share, two)} of their speed beside them, at least ${minShareOfImport}`,
      share,
      minShareOfImport,
    ),
  ]
  for (const { what, isMet } of goals) say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
  const kinds = ['beside', 'alone'] as const
  const named = { beside: 'beside imports', alone: 'alone' }
  return {
    isRight: measured.every(({ wrong }) => wrong === null),
    result: {
      mongodb: measured[0]!.mongodb,
      reactions: amount,
      ...figures,
      cost_a_reaction: costOfRounds(costs),
      measured: measured.map(({ beside, alone, importRowsPerSecond, wrong }) => ({
        reactions_per_second: { beside: beside.perSecond, alone: alone.perSecond },
        import_rows_per_second: importRowsPerSecond,
        cost_of_all_a_reaction: beside.cost,
        cost_a_reaction: alone.cost,
        wrong,
      })),
    },
    goals,
    latencies: kinds.map((kind) => ({
      name: named[kind],
      ...latencyOf(
        'a reaction, unpaused to outbox',
        measured.flatMap((round) => round[kind].milliseconds),
      ),
    })),
    timelines: kinds.map((kind) => ({
      name: named[kind],
      of: 'reactions',
      rounds: measured.map((round) => round[kind].timeline),
    })),
  }
}

/** By the median over the rounds. */
const goal = (what: string, measured: Spread, least: number): Goal => ({
  what,
  isMet: measured.median >= least,
  measured,
})

const views = (service: MeasuredService, ids: number[]): Promise<ImportView[]> =>
  Promise.all(ids.map((id) => service.client.get<ImportView>(`/subscriber_imports/${id}`)))

async function createList({ client }: MeasuredService, name: string): Promise<number> {
  const { id } = await client.post<{ id: number }>('/mailing_lists', { mailing_list: { name } })
  for (const field of customFields)
    await client.post(`/mailing_lists/${id}/custom_fields`, { custom_field: field })
  return id
}

/** Of a paused autoresponder, whose id it resolves to, and as imports leave them: all of a batch are due at one moment. */
async function queueReactions(service: MeasuredService, listId: number, amount: number): Promise<number> {
  const { collections, ids } = service.database
  const autoresponderId = await ids.allocate('autoresponder')
  const autoresponder: AutoresponderDocument = {
    _id: autoresponderId,
    organization_id: 1,
    mailing_list_id: listId,
    name: `Paused ${autoresponderId}`,
    name_key: `paused ${autoresponderId}`,
    trigger: 'subscription',
    ...autoresponderDefaults,
    content_subject: 'Hello',
    content_text: 'Good to have you.',
    paused: true,
    paused_at: new Date(),
    trigger_include_subscribers_from_import: true,
    created_at: new Date(),
  }
  await collections.autoresponders.insertOne(autoresponder)
  const firstId = await ids.allocate('reaction', amount)
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
