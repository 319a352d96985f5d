import { mkdir } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { Cannon, type CannonRequest, type Volley } from '../load/cannon.ts'
import { costOf, costOfRounds, describeCosts, type Cost } from '../load/cost.ts'
import { timesOf } from '../load/report.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { serverVersion } from '../mongodb-server.ts'
import { whole, withRange } from '../report/text.ts'
import type { Goal, NamedLatency, NamedTimelines, Study, StudyOptions, Timeline } from '../scenario.ts'

/**
 * Delivery events in calls of 1,000, as a busy mail sender brings them: of one autoresponder, so that all calls move the
 * same figures. Each mail is told of in five calls, first that it was sent, so that most calls change messages that are
 * there.
 */
export const deliveryEvents: Study = {
  name: 'delivery-events',
  summary:
    'delivery events in calls of 1,000 by 2 and by 4 connections, and the statistics that come of them',
  quick: ['--seconds', '2', '--rounds', '2'],
  async run(options) {
    const folder = options.data ?? options.folder
    await mkdir(folder, { recursive: true })
    const cannon = new Cannon()
    try {
      return await onMeasuredService(folder, (service) => measure(service, cannon, options))
    } finally {
      cannon.stop()
    }
  },
}

const eventsOfCall = 1_000
const subscribers = 20_000
const goalPerSecond = 5_000

async function measure(service: MeasuredService, cannon: Cannon, options: StudyOptions) {
  const { say, seconds, rows } = options
  const { listId, autoresponderId, firstId } = await prepare(service)
  const calls = rows === null ? null : Math.ceil(rows / eventsOfCall)
  // More than can be told in the time: nothing is told twice.
  const most = Math.max((calls ?? seconds * 40) + 8, 80)
  const makeCalls = (round: string) => callsOf({ autoresponderId, firstId, round, calls: most })
  const results: Record<string, unknown>[] = []
  const goals: Goal[] = []
  const latencies: NamedLatency[] = []
  const timelines: NamedTimelines[] = []
  let told = 0
  let isRight = true
  say(
    `${'connections'.padEnd(14)}${'events/s'.padStart(26)}${'median ms of a call'.padStart(24)}${'p99 ms'.padStart(22)}`,
  )
  for (const connections of [2, 4]) {
    const name = `${connections} connections`
    const volleys: Volley[] = []
    const costs: Cost[] = []
    const rounds: Timeline[] = []
    for (let round = 0; round <= options.rounds; round += 1) {
      const work = () =>
        cannon.fire({
          url: service.url,
          authorization: service.authorization,
          connections,
          seconds: round === 0 ? 2 : seconds,
          ...(calls === null || round === 0 ? {} : { amount: calls }),
          requests: makeCalls(`${connections}-${round}`),
        })
      const events = () => cannon.replies * eventsOfCall
      const { done: volley, cost, timeline } = await costOf(service, events, work, { progress: events })
      told += events()
      isRight &&= volley.wrongReplies + volley.errors === 0 && !volley.usedUp
      for (const wrong of volley.wrong) say(`WRONG REPLY: ${wrong}`)
      if (round === 0) continue
      volleys.push(volley)
      costs.push(cost)
      rounds.push(timeline)
    }
    const { perSecond: callsPerSecond, medianMs, p95Ms, p99Ms, latency } = timesOf(volleys)
    const perSecond = {
      median: callsPerSecond.median * eventsOfCall,
      least: callsPerSecond.least * eventsOfCall,
      most: callsPerSecond.most * eventsOfCall,
    }
    const cells = [withRange(perSecond, whole), withRange(medianMs, whole), withRange(p99Ms, whole)]
    say(
      `${String(connections).padEnd(14)}${cells[0]!.padStart(26)}${cells[1]!.padStart(24)}${cells[2]!.padStart(22)}   load average ${loadavg()[0]!.toFixed(1)}`,
    )
    say(`              ${describeCosts(costs, 'an event')}`)
    const what = `${name}: ${cells[0]} events/s, at least ${goalPerSecond}`
    const isMet = perSecond.median >= goalPerSecond
    goals.push({ what, isMet, measured: perSecond })
    latencies.push({ name, ...latency, of: 'a call' })
    timelines.push({ name, of: 'events', rounds })
    say(`${isMet ? 'met    ' : 'MISSED '} ${what}`)
    results.push({
      connections,
      events_per_second: perSecond,
      medianMs,
      p95Ms,
      p99Ms,
      cost_an_event: costOfRounds(costs),
    })
  }
  const stored = await service.database.collections.deliveryEvents.countDocuments()
  // A call whose reply wasn't waited for any more may have been counted.
  if (stored < told) say(`WRONG COUNT: ${stored} events are there, ${told} were accepted`)
  const startedAt = performance.now()
  const path = `/mailing_lists/${listId}/autoresponders/${autoresponderId}/statistics`
  const statistics = await service.client.get<{ messages_sent: number }>(path)
  const statisticsMs = performance.now() - startedAt
  say(
    `statistics over ${stored.toLocaleString('en')} events: ${statisticsMs.toFixed(0)} ms, ${statistics.messages_sent} messages`,
  )
  return {
    isRight: isRight && stored >= told,
    result: { mongodb: await serverVersion(service.database.client), events: stored, statisticsMs, results },
    goals,
    latencies,
    timelines,
  }
}

/** A list with subscribers and an autoresponder, put into the database as they are. */
async function prepare({ client, database }: MeasuredService) {
  const { id: listId } = await client.post<{ id: number }>('/mailing_lists', {
    mailing_list: { name: 'Mailing' },
  })
  const created = await client.post<{ id: number }>(`/mailing_lists/${listId}/autoresponders`, {
    autoresponder: { name: 'Welcome', trigger: 'api' },
  })
  const firstId = 1_000_000
  const now = new Date()
  await database.collections.subscribers.insertMany(
    Array.from({ length: subscribers }, (_, i) => ({
      _id: `${listId}:s${i}@example.com`,
      id: firstId + i,
      mailing_list_id: listId,
      email: `s${i}@example.com`,
      status: 'active' as const,
      created_at: now,
      subscribe_time: now,
      custom_fields: {},
    })),
  )
  return { listId, autoresponderId: created.id, firstId }
}

interface Calls {
  autoresponderId: number
  firstId: number
  round: string
  calls: number
}

/** Batches of mails that are under way at once: a sender tells of one and then of another. */
const batchesAtOnce = 8
const kinds = 5

/** Of a batch of mails a call tells that they were sent, four others what became of them: 1 % bounce, 1 % leave. */
function callsOf({ autoresponderId, firstId, round, calls }: Calls): CannonRequest[] {
  return Array.from({ length: calls }, (_, call) => {
    const kind = Math.floor(call / batchesAtOnce) % kinds
    const batch = Math.floor(call / batchesAtOnce / kinds) * batchesAtOnce + (call % batchesAtOnce)
    const events = Array.from({ length: eventsOfCall }, (_, i) => ({
      id: `${round}-${call}-${i}`,
      occurred_at: new Date(Date.UTC(2026, 5, 1) + batch * 3_600_000 + i).toISOString(),
      message_id: `${round}-${batch}-${i}`,
      autoresponder_id: autoresponderId,
      subscriber_id: firstId + ((batch * eventsOfCall + i) % subscribers),
      ...detailsOf(kind, i),
    }))
    return {
      method: 'POST',
      path: '/svc/api/v2/delivery_events',
      body: JSON.stringify({ delivery_events: events }),
      expect: `"accepted":${eventsOfCall}`,
    }
  })
}

function detailsOf(kind: number, i: number): Record<string, unknown> {
  if (kind === 0) return { type: 'sent', format: i % 10 === 0 ? 'text' : 'multipart' }
  if (kind === 1 && i % 100 === 0)
    return { type: 'bounced', bounce_type: 'hard', bounce_location: 'remote', bounce_code: `5.1.${i % 7}` }
  if (kind === 1) return { type: 'delivered' }
  if (kind === 4 && i % 100 === 1) return { type: 'unsubscribed' }
  if (kind === 4) return { type: 'clicked', url: `https://www.example.com/offers/${i % 5}` }
  return { type: 'opened', privacy: i % 3 === 0 }
}
