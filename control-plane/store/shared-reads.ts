import { delayProjection, type AutoresponderDocument } from '../../shared/contract/schemas/autoresponder.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import type { Database } from '../../shared/runtime/database.ts'
import type { AnsweringAutoresponder } from '../../shared/store/reactions.ts'
import { countSubscribers } from '../../shared/store/subscriber-counts.ts'
import type { AllSlots } from '../api/slots.ts'
import { batchedRead } from '../api/batched-read.ts'
import { singleFlight } from '../api/single-flight.ts'

export type SharedReads = ReturnType<typeof createSharedReads>

/**
 * Reads that concurrent requests share: point reads of one moment are one query, and a larger read that several want is
 * made once. No result is older than its request. Results are shared, so callers must not change them.
 */
export function createSharedReads(database: Database, { searches }: Pick<AllSlots, 'searches'>) {
  const { autoresponders, customFields, mailingLists, organizations, subscribers, users } =
    database.collections
  const readZone = batchedRead(async (ids: number[]) => {
    const found = await organizations
      .find({ _id: { $in: ids } }, { projection: { time_zone_name: 1 } })
      .toArray()
    return new Map(found.map(({ _id, time_zone_name: zone }) => [_id, zone]))
  })
  return {
    /** A list by its id. */
    list: batchedRead(async (ids: number[]) => {
      const lists = await mailingLists.find({ _id: { $in: ids } }).toArray()
      return new Map(lists.map((list) => [list._id, list]))
    }),

    /** A list's custom fields, sorted by id. */
    fields: singleFlight((listId: number) =>
      customFields.find({ mailing_list_id: listId }).sort({ _id: 1 }).toArray(),
    ),

    /** A subscriber by `_id`. */
    subscriber: batchedRead(async (keys: string[]) => {
      const found = await subscribers.find({ _id: { $in: keys } }).toArray()
      return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
    }),

    /** By `<list id>:<id>`. The key is a text, because two equal objects would be two keys. */
    subscriberById: batchedRead(async (keys: string[]) => {
      const ids = keys.map((key) => key.split(':').map(Number) as [listId: number, id: number])
      const ranges = [...Map.groupBy(ids, ([listId]) => listId)].map(([listId, ofList]) => ({
        mailing_list_id: listId,
        id: { $in: ofList.map(([, id]) => id) },
      }))
      const [only] = ranges
      const filter = only !== undefined && ranges.length === 1 ? only : { $or: ranges }
      const found = await subscribers.find(filter).toArray()
      return new Map(
        found.map((subscriber) => [`${subscriber.mailing_list_id}:${subscriber.id}`, subscriber]),
      )
    }),

    /** The subscribers with the keys of a search. Each search is a key of its own; concurrent ones are one query. */
    foundByEmail: batchedRead(
      async (searches: EmailSearch[]) => {
        const [only] = searches
        const isAlone = only !== undefined && searches.length === 1
        const keys = isAlone ? only.keys : [...new Set(searches.flatMap((search) => search.keys))]
        const found = await subscribers
          .find<FoundSubscriber>(
            { _id: { $in: keys } },
            { projection: foundProjection, batchSize: manyDocuments },
          )
          .toArray()
        if (isAlone) return new Map([[only, found]])
        const byEmail = Map.groupBy(found, ({ _id }) => _id.slice(_id.indexOf(':') + 1))
        return new Map(
          searches.map((search) => [search, withKeys(byEmail.get(search.emailKey) ?? [], search)]),
        )
      },
      ({ keys }) => keys.length,
    ),

    /** The number of a list's subscribers in any status. */
    subscriberCount: singleFlight((listId: number) => countSubscribers(database, listId)),

    /**
     * Without Remote Lists, sorted by id. The key is JSON, since equal objects would be different keys. The read waits for
     * a slot of `searches`, behind the organization's wide searches, and so the requests that follow these share it.
     */
    listsToSearch: singleFlight((json: string): Promise<SearchedList[]> => {
      const { organizationId, filter } = JSON.parse(json) as ListsOfCaller
      return searches.run({ organizationId }, async () => {
        const lists = await mailingLists
          .find(
            { ...filter, is_remote_list: false },
            {
              projection: { organization_id: 1, name: 1, primary_key_custom_field_id: 1 },
              batchSize: manyDocuments,
            },
          )
          .toArray()
        return lists.sort((a, b) => a._id - b._id)
      })
    }),

    /** A list's autoresponders with the trigger `subscription`, also those that don't react to requests; in no order. */
    onSubscription: singleFlight((listId: number) =>
      autoresponders
        .find<OnSubscription>(
          { mailing_list_id: listId, trigger: 'subscription' },
          { projection: { name: 1, ...delayProjection, trigger_run_on_api: 1 } },
        )
        .toArray(),
    ),

    roleOfUser: batchedRead(async (ids: number[]) => {
      const found = await users.find({ _id: { $in: ids } }, { projection: { role: 1 } }).toArray()
      return new Map(found.map(({ _id, role }) => [_id, role]))
    }),

    /** IANA name of an organization's time zone; UTC for an organization that is gone. */
    timeZone: async (organizationId: number) => (await readZone(organizationId)) ?? 'UTC',
  }
}

/** With the driver's default, more than a hundred documents would need a second round trip. */
export const manyDocuments = 5_000

type OnSubscription = AnsweringAutoresponder & Pick<AutoresponderDocument, 'name' | 'trigger_run_on_api'>

/** The lists to search: one, those of an organization, or all. */
export type ListsToSearch = { _id: number } | { organization_id: number } | Record<string, never>

interface ListsOfCaller {
  organizationId: number
  filter: ListsToSearch
}

export type SearchedList = Pick<
  MailingListDocument,
  '_id' | 'organization_id' | 'name' | 'primary_key_custom_field_id'
>

interface EmailSearch {
  emailKey: string
  /** `_id`s, all with that email. */
  keys: string[]
}

export const foundProjection = { id: 1, mailing_list_id: 1, status: 1, email: 1 } as const
export type FoundSubscriber = Pick<SubscriberDocument, '_id' | 'id' | 'mailing_list_id' | 'status' | 'email'>

/** Two searches for one email may be for different lists. */
function withKeys(found: FoundSubscriber[], { keys }: EmailSearch): FoundSubscriber[] {
  const wanted = new Set(keys)
  return found.filter(({ _id }) => wanted.has(_id))
}
