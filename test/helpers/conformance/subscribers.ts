import { unsubscribeToken } from '../../../control-plane/api/signed-token.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import type { Json } from '../service.ts'
import { newForm } from './confirmation-forms.ts'
import {
  lockedOrganization,
  limitedOrganization,
  newSubscriber,
  noSuchSubscriber,
  onRemoteList,
  paramsOfSubscriber,
  listOfLongValues,
  planField,
  twins,
} from './made-subscribers.ts'
import type { Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'
import { present } from '../present.ts'

async function unsubscription(world: World, subscriber: Json): Promise<Json> {
  const secret = await keyHashSecret(world.service.collections)
  const { mailing_list_id: listId, id: subscriberId } = subscriber
  return { token: unsubscribeToken(secret, { listId, subscriberId, messageId: '1' }), ip: '192.0.2.7' }
}

const missing = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: 'not_found' })) }
const anyEmail = { email: [...noSuchSubscriber, '%', '*'].map((value) => ({ value, code: null })) }

const faultyTokens = (requestWith: (world: World) => Promise<Sent> | Sent): NonNullable<Row['failures']> => ({
  'a token beside a page': async (world) => ({
    sent: { ...(await requestWith(world)), query: '?page=1&page_token=x' },
    code: 'invalid_request',
    message: /^page_token must not/,
  }),
  'a token that it never gave': async (world) => ({
    sent: { ...(await requestWith(world)), query: '?page_token=x' },
    code: 'invalid_request',
    message: /^page_token is not/,
  }),
})

/** Values that a list with the required number `Plan` refuses. */
const faulty: Record<string, [values: Record<string, unknown>, message: RegExp]> = {
  'what is no email': [{ email: 'nobody' }, /^email must be/],
  'a date alone as a time': [{ subscribe_time: '2026-01-31' }, /^subscribe_time must be/],
  'what is no address': [{ subscribe_ip: '192.0.2.256' }, /^subscribe_ip must be/],
  'an unknown custom field': [{ custom_fields: { Plan: 1, Nothing: 'x' } }, /^custom_fields.Nothing is no/],
  'a field that is given twice': [{ custom_fields: { PLAN: 1, Plan: 1 } }, /is given twice/],
  'a value that the field refuses': [{ custom_fields: { Plan: 'x' } }, /^custom_fields.Plan must be/],
}

function faultyValues(
  requestWith: (world: World, listId: number, values: Record<string, unknown>) => Promise<Sent> | Sent,
): NonNullable<Row['failures']> {
  return Object.fromEntries(
    Object.entries(faulty).map(([title, [values, message]]) => [
      title,
      async (world: World) => {
        const { id } = await world.list({ fields: [planField] })
        return { sent: await requestWith(world, id, values), code: 'validation_failed', message }
      },
    ]),
  )
}

export const subscriberRows: Rows = {
  listSubscribers: {
    good: async (world) => ({
      params: { mailing_list_id: (await newSubscriber(world)).mailing_list_id },
      query: '?per_page=1',
    }),
    failures: {
      'a Remote List': onRemoteList(),
      ...faultyTokens(async ({ list }) => ({ params: { mailing_list_id: (await list()).id } })),
    },
  },
  getSubscribers: {
    good: async (world) => ({ params: paramsOfSubscriber(await newSubscriber(world)) }),
    otherParams: { ...missing },
    failures: {
      'a Remote List': onRemoteList(),
      'several that it does not have': async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id, id_or_email: '4711,nobody@example.com' } },
        code: 'not_found',
        message: /^the list has none of the 2 subscribers/,
      }),
      'subscribers of more than 8 MB': async (world) => {
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
          code: 'requested_too_many',
          message: /^the reply would have more than 8000000 bytes: /,
        }
      },
      'an email that more than 500 have': async (world) => {
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
          code: 'requested_too_many',
          message: /^more than 500/,
        }
      },
      'more than 100 at once': async ({ list }) => ({
        sent: {
          params: {
            mailing_list_id: (await list()).id,
            id_or_email: Array.from({ length: 101 }, (_, i) => i + 1).join(),
          },
        },
        code: 'requested_too_many',
        message: /101/,
      }),
    },
  },
  createSubscriber: {
    slowFailures: {
      'a place that an import holds': async (world) => {
        const { listId, key } = await lockedOrganization(world)
        return {
          sent: {
            params: { mailing_list_id: listId },
            body: { subscriber: { email: 'a@example.com' } },
            key,
          },
          code: 'validation_failed',
          message: /^status can't be active just now/,
        }
      },
    },
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
    failures: {
      'an identity that is there': async (world) => {
        const { mailing_list_id, email } = await newSubscriber(world)
        return {
          sent: { params: { mailing_list_id }, body: { subscriber: { email: email.toUpperCase() } } },
          code: 'validation_failed',
          message: /already/,
        }
      },
      'a Remote List': onRemoteList({ body: { subscriber: { email: 'a@example.com' } } }),
      ...faultyValues((_world, mailing_list_id, values) => ({
        params: { mailing_list_id },
        body: { subscriber: { email: 'a@example.com', custom_fields: { Plan: 1 }, ...values } },
      })),
      'a required field without a value': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list({ fields: [planField] })).id },
          body: { subscriber: { email: 'a@example.com' } },
        },
        code: 'validation_failed',
        message: /^custom_fields.Plan is required$/,
      }),
      'values of more than 4 MiB': async (world) => {
        const { id, overfilled } = await listOfLongValues(world)
        const subscriber = { email: 'a@example.com', ...overfilled }
        return {
          sent: { params: { mailing_list_id: id }, body: { subscriber } },
          code: 'validation_failed',
          message: /would hold more than/,
        }
      },
      'one more than the limit': async (world) => {
        const { listId, key } = await limitedOrganization(world, 0)
        return {
          sent: {
            params: { mailing_list_id: listId },
            body: { subscriber: { email: 'a@example.com' } },
            key,
          },
          code: 'validation_failed',
          message: /limit is reached$/,
        }
      },
      'a confirmation form of another list': async (world) => {
        const form = await newForm(world)
        return {
          sent: {
            params: { mailing_list_id: (await world.list()).id },
            body: { subscriber: { email: 'a@example.com' }, confirmation_form_id: form.id },
          },
          code: 'not_found',
          message: /confirmation form/,
        }
      },
    },
  },
  updateSubscriber: {
    slowFailures: {
      'a place that an import holds': async (world) => {
        const { listId, key } = await lockedOrganization(world)
        const subscriber = await world.service.post(`/mailing_lists/${listId}/subscribers`, {
          subscriber: { email: 'a@example.com', status: 'bounced' },
        })
        return {
          sent: { params: paramsOfSubscriber(subscriber), body: { subscriber: { status: 'active' } }, key },
          code: 'validation_failed',
          message: /^status can't be active just now/,
        }
      },
    },
    good: async (world) => ({
      params: paramsOfSubscriber(await newSubscriber(world)),
      body: {
        subscriber: { status: 'unsubscribed', remove_ip: '192.0.2.7', subscribe_ip: null, remove_time: null },
        run_autoresponders: true,
      },
    }),
    otherParams: missing,
    failures: {
      'a Remote List': onRemoteList({ body: { subscriber: {} } }),
      ...faultyValues(async (world, listId, values) => ({
        params: paramsOfSubscriber(await newSubscriber(world, listId, { custom_fields: { Plan: 1 } })),
        body: { subscriber: values },
      })),
      'unsetting a required field': async (world) => {
        const { id } = await world.list({ fields: [planField] })
        return {
          sent: {
            params: paramsOfSubscriber(await newSubscriber(world, id, { custom_fields: { Plan: 1 } })),
            body: { subscriber: { custom_fields: { Plan: null } } },
          },
          code: 'validation_failed',
          message: /can't be unset$/,
        }
      },
      'values of more than 4 MiB': async (world) => {
        const { id, filled, oneMore } = await listOfLongValues(world)
        return {
          sent: {
            params: paramsOfSubscriber(await newSubscriber(world, id, filled)),
            body: { subscriber: { custom_fields: oneMore } },
          },
          code: 'validation_failed',
          message: /would hold more than/,
        }
      },
      'one more than the limit': async (world) => {
        const { listId, key } = await limitedOrganization(world, 0)
        const subscriber = await world.service.post(`/mailing_lists/${listId}/subscribers`, {
          subscriber: { email: 'a@example.com', status: 'bounced' },
        })
        return {
          sent: { params: paramsOfSubscriber(subscriber), body: { subscriber: { status: 'active' } }, key },
          code: 'validation_failed',
          message: /limit is reached$/,
        }
      },
      'an email that several have': async (world) => ({
        sent: { params: paramsOfSubscriber(await twins(world)), body: { subscriber: { status: 'bounced' } } },
        code: 'multiple_records_found',
      }),
      'an identity that is there': async (world) => {
        const one = await newSubscriber(world)
        const other = await newSubscriber(world, one.mailing_list_id)
        return {
          sent: { params: paramsOfSubscriber(one), body: { subscriber: { email: other.email } } },
          code: 'validation_failed',
          message: /already/,
        }
      },
    },
  },
  deleteSubscriber: {
    good: async (world) => ({ params: paramsOfSubscriber(await newSubscriber(world)) }),
    otherParams: missing,
    failures: {
      'a Remote List': onRemoteList(),
      'everybody, where deletion is disabled': async (world) => ({
        sent: { params: paramsOfSubscriber(await newSubscriber(world)) },
        code: 'validation_failed',
        message: /^subscriber \d+ can't be deleted/,
        settings: { DISABLE_SUBSCRIBER_DELETION: 'true' },
      }),
    },
  },
  unsubscribe: {
    good: async (world) => ({
      body: { unsubscribe: await unsubscription(world, await newSubscriber(world)) },
    }),
    failures: {
      'what is no address': async (world) => {
        const unsubscribe = await unsubscription(world, await newSubscriber(world))
        return {
          sent: { body: { unsubscribe: { ...unsubscribe, ip: 'here' } } },
          code: 'validation_failed',
          message: /^ip must be/,
        }
      },
      'an unknown token': () => ({
        sent: { body: { unsubscribe: { token: 'MTI6OTAwMTo1NQ.9bUqv0hG0q3mYx2c4rYvMw' } } },
        code: 'not_found',
      }),
      'a token of another organization': async (world) => ({
        sent: {
          body: { unsubscribe: await unsubscription(world, await newSubscriber(world)) },
          key: world.foreigner,
        },
        code: 'not_found',
      }),
      'a deleted subscriber': async (world) => {
        const subscriber = await newSubscriber(world)
        const unsubscribe = await unsubscription(world, subscriber)
        const { mailing_list_id, id } = subscriber
        await world.service.call('DELETE', `/mailing_lists/${mailing_list_id}/subscribers/${id}`)
        return { sent: { body: { unsubscribe } }, code: 'not_found' }
      },
    },
  },
  findSubscribersByEmail: {
    good: async (world) => ({ params: { email: (await newSubscriber(world)).email } }),
    otherParams: anyEmail,
    strangerSeesNothing: true,
    failures: faultyTokens(() => ({ params: { email: 'ann@example.com' } })),
  },
  findSubscribersByEmailInList: {
    good: async (world) => {
      const { mailing_list_id, email } = await newSubscriber(world)
      return { params: { mailing_list_id, email } }
    },
    otherParams: anyEmail,
    failures: {
      'a Remote List': onRemoteList({}, { email: 'ann@example.com' }),
      ...faultyTokens(async ({ list }) => ({
        params: { mailing_list_id: (await list()).id, email: 'ann@example.com' },
      })),
    },
  },
  findSubscribersByEmailEverywhere: {
    good: async (world) => ({ params: { email: (await newSubscriber(world)).email } }),
    otherParams: anyEmail,
    failures: faultyTokens(() => ({ params: { email: 'ann@example.com' } })),
  },
  findSubscribersByEmailInOrganization: {
    good: async (world) => ({
      params: { organization_id: world.organizationId, email: (await newSubscriber(world)).email },
    }),
    otherParams: anyEmail,
    failures: faultyTokens(({ organizationId }) => ({
      params: { organization_id: organizationId, email: 'ann@example.com' },
    })),
  },
}
