import { unsubscribeToken } from '../../../control-plane/api/signed-token.ts'
import type { RequestError } from '../../../control-plane/api/request-error.ts'
import {
  customFieldsTooLarge,
  deletionDisabled,
  faultyCustomFields,
  identityExists,
  limitHeldByImports,
  limitReached,
  noConfirmationForm,
  noEmail,
  noIp,
  noIpOfVisitor,
  noMailOfToken,
  noneOfThem,
  noTime,
  requiredField,
  requiredFieldUnset,
  severalSubscribers,
  subscribersTooLarge,
  tooManyMatches,
  tooManyNames,
} from '../../../control-plane/resources/subscribers/refusals.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import type { Json } from '../service.ts'
import { newForm } from './confirmation-forms.ts'
import {
  lockedOrganization,
  limitedOrganization,
  newSubscriber,
  noSuchSubscriber,
  paramsOfSubscriber,
  listOfLongValues,
  planField,
  twins,
} from './made-subscribers.ts'
import { onRemoteList, type MakeRefused, type Rows, type Sent } from './row.ts'
import type { World } from './world.ts'
import { present } from '../present.ts'

async function unsubscription(world: World, subscriber: Json): Promise<Json> {
  const secret = await keyHashSecret(world.service.collections)
  const { mailing_list_id: listId, id: subscriberId } = subscriber
  return { token: unsubscribeToken(secret, { listId, subscriberId, messageId: '1' }), ip: '192.0.2.7' }
}

const missing = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: 'not_found' })) }
const anyEmail = { email: [...noSuchSubscriber, '%', '*'].map((value) => ({ value, code: null })) }

/** Values that a list with the required number `Plan` refuses. */
const faulty: [values: Record<string, unknown>, refused: RequestError][] = [
  [{ email: 'nobody' }, noEmail()],
  [{ subscribe_time: '2026-01-31' }, noTime('subscribe_time')],
  [{ subscribe_ip: '192.0.2.256' }, noIp('subscribe_ip')],
  [{ custom_fields: { Plan: 1, Nothing: 'x' } }, faultyCustomFields.unknown('Nothing')],
  [{ custom_fields: { PLAN: 1, Plan: 1 } }, faultyCustomFields.twice('Plan')],
  [{ custom_fields: { Plan: 'x' } }, faultyCustomFields.value('Plan', 'an integer')],
]

const faultyRequests = (
  requestWith: (world: World, listId: number, values: Record<string, unknown>) => Promise<Sent> | Sent,
): MakeRefused[] =>
  faulty.map(([values, refused]) => async (world) => {
    const { id } = await world.list({ fields: [planField] })
    return { sent: await requestWith(world, id, values), refused }
  })

const creation = (mailing_list_id: number, subscriber: object = {}): Sent => ({
  params: { mailing_list_id },
  body: { subscriber: { email: 'a@example.com', ...subscriber } },
})

/** A bounced subscriber of a full organization is to be active. */
async function activation(world: World, { listId, key }: { listId: number; key: string }): Promise<Sent> {
  const subscriber = await world.service.post(`/mailing_lists/${listId}/subscribers`, {
    subscriber: { email: 'a@example.com', status: 'bounced' },
  })
  return { params: paramsOfSubscriber(subscriber), body: { subscriber: { status: 'active' } }, key }
}

export const subscriberRows: Rows = {
  listSubscribers: {
    good: async (world) => ({
      params: { mailing_list_id: (await newSubscriber(world)).mailing_list_id },
      query: '?per_page=1',
    }),
    refusals: [onRemoteList()],
  },
  getSubscribers: {
    good: async (world) => ({ params: paramsOfSubscriber(await newSubscriber(world)) }),
    otherParams: { ...missing },
    refusals: [
      onRemoteList(),
      async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id, id_or_email: '4711,nobody@example.com' } },
        refused: noneOfThem(2),
      }),
      async (world) => {
        const { mailing_list_id, id } = await newSubscriber(world)
        const { subscribers } = world.service.collections
        const { id: fieldId } = await world.post(`/mailing_lists/${mailing_list_id}/custom_fields`, {
          custom_field: { name: 'Large', field_type: 'text_multiline' },
        })
        const one = present(await subscribers.findOne({ mailing_list_id, id }), 'the subscriber')
        const custom_fields = { [fieldId]: 'x'.repeat(5_000_000) }
        const other = {
          ...one,
          _id: `${one._id}.other`,
          id: 1_000_000_000 + Number(mailing_list_id),
          custom_fields,
        }
        await subscribers.updateOne({ _id: one._id }, { $set: { custom_fields } })
        await subscribers.insertOne(other)
        return {
          sent: { params: { mailing_list_id, id_or_email: `${id},${other.id}` } },
          refused: subscribersTooLarge(),
        }
      },
      async (world) => {
        const { mailing_list_id, id } = await twins(world)
        const { subscribers } = world.service.collections
        const twin = present(await subscribers.findOne({ mailing_list_id }), 'a subscriber')
        await subscribers.insertMany(
          Array.from({ length: 500 }, (_, i) => ({
            ...twin,
            _id: `${mailing_list_id}:${i + 10}`,
            id: 1_000_000_000 + mailing_list_id * 1000 + i,
          })),
        )
        return {
          sent: { params: { mailing_list_id, id_or_email: id } },
          refused: tooManyMatches(mailing_list_id),
        }
      },
      async ({ list }) => ({
        sent: {
          params: {
            mailing_list_id: (await list()).id,
            id_or_email: Array.from({ length: 101 }, (_, i) => i + 1).join(),
          },
        },
        refused: tooManyNames(101),
      }),
    ],
  },
  createSubscriber: {
    slowRefusals: [
      async (world) => {
        const { listId, key } = await lockedOrganization(world)
        return { sent: { ...creation(listId), key }, refused: limitHeldByImports() }
      },
    ],
    good: async ({ list, unique }) => ({
      params: {
        mailing_list_id: (
          await list({
            fields: [{ name: 'First name', field_type: 'text' }],
            list: { has_format: true, has_confirmed: true },
          })
        ).id,
      },
      body: {
        subscriber: {
          email: `${unique('s').replace(' ', '-')}@example.com`,
          email_format: 'html',
          status: 'active',
          subscribe_time: '2026-01-31T12:00',
          subscribe_ip: '2001:db8::1',
          confirmed: true,
          custom_fields: { 'First name': 'Ann' },
          skip_autoresponders: true,
        },
        apply_custom_field_defaults: true,
      },
    }),
    refusals: [
      async (world) => {
        const { mailing_list_id, email } = await newSubscriber(world)
        return { sent: creation(mailing_list_id, { email: email.toUpperCase() }), refused: identityExists() }
      },
      onRemoteList({ body: { subscriber: { email: 'a@example.com' } } }),
      ...faultyRequests((_world, listId, values) =>
        creation(listId, { custom_fields: { Plan: 1 }, ...values }),
      ),
      async ({ list }) => ({
        sent: creation((await list({ fields: [planField] })).id),
        refused: requiredField('Plan'),
      }),
      async (world) => {
        const { id, overfilled } = await listOfLongValues(world)
        return { sent: creation(id, overfilled), refused: customFieldsTooLarge() }
      },
      async (world) => {
        const { listId, key } = await limitedOrganization(world, 0)
        return { sent: { ...creation(listId), key }, refused: limitReached() }
      },
      // The form is another list's.
      async (world) => {
        const { id } = await newForm(world)
        const body = { subscriber: { email: 'a@example.com' }, confirmation_form_id: id }
        return {
          sent: { params: { mailing_list_id: (await world.list()).id }, body },
          refused: noConfirmationForm(id),
        }
      },
    ],
  },
  updateSubscriber: {
    slowRefusals: [
      async (world) => ({
        sent: await activation(world, await lockedOrganization(world)),
        refused: limitHeldByImports(),
      }),
    ],
    good: async (world) => ({
      params: paramsOfSubscriber(await newSubscriber(world)),
      body: {
        subscriber: { status: 'unsubscribed', remove_ip: '192.0.2.7', subscribe_ip: null, remove_time: null },
        run_autoresponders: true,
      },
    }),
    otherParams: missing,
    refusals: [
      onRemoteList({ body: { subscriber: {} } }),
      ...faultyRequests(async (world, listId, values) => ({
        params: paramsOfSubscriber(await newSubscriber(world, listId, { custom_fields: { Plan: 1 } })),
        body: { subscriber: values },
      })),
      async (world) => {
        const { id } = await world.list({ fields: [planField] })
        return {
          sent: {
            params: paramsOfSubscriber(await newSubscriber(world, id, { custom_fields: { Plan: 1 } })),
            body: { subscriber: { custom_fields: { Plan: null } } },
          },
          refused: requiredFieldUnset('Plan'),
        }
      },
      async (world) => {
        const { id, filled, oneMore } = await listOfLongValues(world)
        return {
          sent: {
            params: paramsOfSubscriber(await newSubscriber(world, id, filled)),
            body: { subscriber: { custom_fields: oneMore } },
          },
          refused: customFieldsTooLarge(),
        }
      },
      async (world) => ({
        sent: await activation(world, await limitedOrganization(world, 0)),
        refused: limitReached(),
      }),
      async (world) => {
        const several = await twins(world)
        return {
          sent: { params: paramsOfSubscriber(several), body: { subscriber: { status: 'bounced' } } },
          refused: severalSubscribers(several.id),
        }
      },
      async (world) => {
        const one = await newSubscriber(world)
        const other = await newSubscriber(world, one.mailing_list_id)
        return {
          sent: { params: paramsOfSubscriber(one), body: { subscriber: { email: other.email } } },
          refused: identityExists(),
        }
      },
    ],
  },
  deleteSubscriber: {
    good: async (world) => ({ params: paramsOfSubscriber(await newSubscriber(world)) }),
    otherParams: missing,
    refusals: [
      onRemoteList(),
      async (world) => {
        const subscriber = await newSubscriber(world)
        return {
          sent: { params: paramsOfSubscriber(subscriber) },
          refused: deletionDisabled([subscriber.id]),
          settings: { DISABLE_SUBSCRIBER_DELETION: 'true' },
        }
      },
    ],
  },
  unsubscribe: {
    good: async (world) => ({
      body: { unsubscribe: await unsubscription(world, await newSubscriber(world)) },
    }),
    refusals: [
      async (world) => {
        const unsubscribe = await unsubscription(world, await newSubscriber(world))
        return { sent: { body: { unsubscribe: { ...unsubscribe, ip: 'here' } } }, refused: noIpOfVisitor() }
      },
      () => ({
        sent: { body: { unsubscribe: { token: 'MTI6OTAwMTo1NQ.9bUqv0hG0q3mYx2c4rYvMw' } } },
        refused: noMailOfToken(),
      }),
      // The token is another organization's.
      async (world) => ({
        sent: {
          body: { unsubscribe: await unsubscription(world, await newSubscriber(world)) },
          key: world.foreign.admin,
        },
        refused: noMailOfToken(),
      }),
      // The subscriber is deleted.
      async (world) => {
        const subscriber = await newSubscriber(world)
        const unsubscribe = await unsubscription(world, subscriber)
        const { mailing_list_id, id } = subscriber
        await world.service.call('DELETE', `/mailing_lists/${mailing_list_id}/subscribers/${id}`)
        return { sent: { body: { unsubscribe } }, refused: noMailOfToken() }
      },
    ],
  },
  findSubscribersByEmail: {
    good: async (world) => ({ params: { email: (await newSubscriber(world)).email } }),
    otherParams: anyEmail,
  },
  findSubscribersByEmailInList: {
    good: async (world) => {
      const { mailing_list_id, email } = await newSubscriber(world)
      return { params: { mailing_list_id, email } }
    },
    otherParams: anyEmail,
    refusals: [onRemoteList({ params: { email: 'ann@example.com' } })],
  },
  findSubscribersByEmailEverywhere: {
    good: async (world) => ({ params: { email: (await newSubscriber(world)).email } }),
    otherParams: anyEmail,
  },
  findSubscribersByEmailInOrganization: {
    good: async (world) => ({
      params: { organization_id: world.organizationId, email: (await newSubscriber(world)).email },
    }),
    otherParams: anyEmail,
  },
}
