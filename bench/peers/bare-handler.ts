import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type ErrorRequestHandler, type RequestHandler } from 'express'
import { credentialCandidates } from '../../control-plane/api/credentials.ts'
import { KnownCallers } from '../../control-plane/api/known-callers.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import { keyHashSecret } from '../../shared/store/api-keys.ts'
import { addMove, changeCounts, countsByList, noStatusCounts } from '../../shared/store/subscriber-counts.ts'

/**
 * The process of the contender "bare handler": Express and the driver, with one indexed read or one transaction of the
 * same writes for a request. It checks the credential as the service does, and nothing else: no body, no list, no limit.
 */
process.on('disconnect', () => process.exit())
process.send?.([])
const [{ uri, name }] = (await once(process, 'message')) as [{ uri: string; name: string }]
const database = await openDatabase({ uri, name })
const { collections } = database
const { counters, customFields, mailingLists, subscribers } = collections
const callers = new KnownCallers(collections, await keyHashSecret(collections))
// Fields don't change meanwhile, so they are read once.
const fields = Map.groupBy(await customFields.find().toArray(), (field) => field.mailing_list_id)
const fieldsOf = (listId: number) => fields.get(listId) ?? []

const view = ({ _id: _, custom_fields: values, mailing_list_id, ...rest }: SubscriberDocument) => {
  const named = fieldsOf(mailing_list_id).map(({ _id, name }) => [name, values[_id]])
  return { ...rest, mailing_list_id, custom_fields: Object.fromEntries(named) as object }
}
const views = (documents: (SubscriberDocument | null)[]) => documents.map((document) => view(document!))

/** By the fields' ids. */
const toStored = (listId: number, values: SubscriberDocument['custom_fields'] = {}, prefix = '') =>
  Object.fromEntries(
    fieldsOf(listId).flatMap(({ _id, name }) => (name in values ? [[`${prefix}${_id}`, values[name]!]] : [])),
  )

interface Sent {
  list: number
  id: number
  email: string
  subscriber: Partial<SubscriberDocument>
}

const answer =
  (handle: (sent: Sent) => Promise<unknown>): RequestHandler =>
  async ({ params: { list, id, ...params }, body }, response) => {
    const data = await handle({ list: Number(list), id: Number(id), ...params, ...(body as object) } as Sent)
    response.json({ success: true, data, error_code: null, error_message: null })
  }

const base = '/svc/api/v2'
const ofList = `${base}/mailing_lists/:list/subscribers`
const app = express()
app.use(async (request, response, next) => {
  const [credential] = credentialCandidates(request.headers.authorization ?? '')
  if (credential !== undefined && (await callers.find(credential.key)) !== null) next()
  else response.sendStatus(401)
})
app.use(express.json())
app.get(
  `${ofList}/:id`,
  answer(async ({ list, id }) => views([await subscribers.findOne({ mailing_list_id: list, id })])),
)
app.get(
  `${ofList}_by_email/:email`,
  answer(async ({ list, email }) => views([await subscribers.findOne({ _id: `${list}:${email}` })])),
)
app.get(
  `${base}/subscriber_counts`,
  answer(async () => {
    const lists = await mailingLists.find({}, { projection: { name: 1 }, batchSize: 500 }).toArray()
    const counts = await countsByList(collections, 1)
    return lists.map(({ _id: id, name }) => ({ mailing_list: { id, name }, counts: counts.get(id) }))
  }),
)
app.post(
  ofList,
  answer(async ({ list, subscriber: { email = '', subscribe_ip = '', custom_fields } }) => {
    const counter = await counters.findOneAndUpdate({ _id: 'subscriber' }, { $inc: { next: 1 } })
    const now = new Date()
    const document: SubscriberDocument = {
      ...{ _id: `${list}:${email}`, id: counter!.next, mailing_list_id: list, email, status: 'active' },
      ...{ created_at: now, subscribe_time: now, subscribe_ip, custom_fields: toStored(list, custom_fields) },
    }
    await inTransaction(database, async (session) => {
      await subscribers.insertOne(document, { session })
      const changes = addMove(noStatusCounts(), null, 'active')
      await changeCounts(database, session, { organizationId: 1, listId: list, changes })
    })
    return view(document)
  }),
)
app.put(
  `${ofList}/:id`,
  answer(async ({ list, id, subscriber: { status, custom_fields } }) => {
    const filter = { mailing_list_id: list, id }
    const $set = toStored(list, custom_fields, 'custom_fields.')
    if (status === undefined)
      return view((await subscribers.findOneAndUpdate(filter, { $set }, { returnDocument: 'after' }))!)
    return inTransaction(database, async (session) => {
      const before = await subscribers.findOneAndUpdate(filter, { $set: { status } }, { session })
      const changes = addMove(noStatusCounts(), before!.status, status)
      await changeCounts(database, session, { organizationId: 1, listId: list, changes })
      return view({ ...before!, status })
    })
  }),
)
// A request that the end of a round cut off. Any other one counts as a wrong reply.
const cutOff: ErrorRequestHandler = (_error, _request, response, _next) => response.destroy()
app.use(cutOff)
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
