import { randomBytes } from 'node:crypto'
import { keyHashSecret } from '../../../shared/api-keys.ts'
import { unsubscribeToken } from '../../../shared/signed-token.ts'
import { autoresponder } from '../autoresponder.ts'
import type { Json } from '../service.ts'
import type { Failure, Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'

async function newSubscriber(world: World, listId?: number, subscriber: object = {}): Promise<Json> {
  const id = listId ?? (await world.list()).id
  const email = `${world.unique('s').replace(' ', '-')}@example.com`
  return world.post(`/mailing_lists/${id}/subscribers`, { subscriber: { email, ...subscriber } })
}

const paramsOf = (subscriber: Json) => ({
  mailing_list_id: subscriber.mailing_list_id,
  id_or_email: subscriber.id,
})

/** A list on which emails aren't the identity, with two subscribers of the same email. */
async function twins(world: World): Promise<Json> {
  const list = await world.list({ fields: [{ name: 'Number', field_type: 'number', required: true }] })
  const [field] = (
    await world.service.call('GET', `/mailing_lists/${list.id}/custom_fields`, undefined, {
      key: world.admin,
    })
  ).body.data
  await world.service.call(
    'PUT',
    `/mailing_lists/${list.id}`,
    { mailing_list: { primary_key_custom_field_id: field.id } },
    { key: world.admin },
  )
  for (const Number of [1, 2])
    await newSubscriber(world, list.id, { email: 'twin@example.com', custom_fields: { Number } })
  return { mailing_list_id: list.id, id: 'twin@example.com' }
}

async function unsubscription(world: World, subscriber: Json): Promise<Json> {
  const secret = await keyHashSecret(world.service.collections)
  const { mailing_list_id: listId, id: subscriberId } = subscriber
  return { token: unsubscribeToken(secret, { listId, subscriberId, messageId: '1' }), ip: '192.0.2.7' }
}

/** A subscriber and an autoresponder of one list. */
async function newTrigger(world: World, subscriber: object = {}) {
  const made = await newSubscriber(world, undefined, subscriber)
  const _id = 1_000_000 + randomBytes(4).readUInt32BE()
  const { organizationId: organization_id } = world
  await world.service.collections.autoresponders.insertOne(
    autoresponder({ _id, organization_id, mailing_list_id: made.mailing_list_id, name: 'Order placed' }),
  )
  return { params: paramsOf(made), autoresponderId: _id }
}

const noSuchSubscriber = ['999999999', 'nobody@example.com', 'abc', '0', '-1', '01', '9'.repeat(30), '$gt']

/** Who isn't there is left out of a list that is read, and is missing where one is written. */
const leftOut = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: null })) }
const missing = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: 'not_found' })) }
const anyEmail = { email: [...noSuchSubscriber, '%', '*'].map((value) => ({ value, code: null })) }

const onRemoteList =
  (more: Partial<Sent> = {}, params: Record<string, string | number> = {}) =>
  async ({ list }: World): Promise<Failure> => ({
    sent: {
      ...more,
      params: { mailing_list_id: (await list({ list: { is_remote_list: true } })).id, ...params },
    },
    code: 'invalid_request',
    message: /Remote List/,
  })

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

const planField = { name: 'Plan', field_type: 'number', required: true }

/** A list of an organization with that limit; with the key of its admin. */
async function limitedOrganization(
  { service, unique }: World,
  limit: number,
): Promise<{ organizationId: number; listId: number; key: string }> {
  const { id } = await service.post('/organizations', {
    organization: { name: unique('Full'), subscriber_limit: limit },
  })
  const list = await service.post('/mailing_lists', {
    mailing_list: { name: 'News', organization_id: id },
  })
  const { key } = await service.post(`/organizations/${id}/api_keys`, { api_key: { name: 'Admin' } })
  return { organizationId: id, listId: list.id, key }
}

/** The same, where an import holds the only place and doesn't give it back. */
async function heldOrganization(world: World): Promise<{ listId: number; key: string }> {
  const limited = await limitedOrganization(world, 1)
  const holder = { _id: `held:${limited.listId}`, organization_id: limited.organizationId, places_held: 1 }
  await world.service.db
    .collection<typeof holder & { dry_run: boolean }>('import_chunks')
    .insertOne({ ...holder, dry_run: false }, { bypassDocumentValidation: true })
  return limited
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
    good: async (world) => ({ params: paramsOf(await newSubscriber(world)) }),
    otherParams: { ...leftOut },
    failures: {
      'a Remote List': onRemoteList(),
      'an email that more than 500 have': async (world) => {
        const { mailing_list_id, id } = await twins(world)
        const { subscribers } = world.service.collections
        const twin = (await subscribers.findOne({ mailing_list_id }))!
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
        const { listId, key } = await heldOrganization(world)
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
        const { listId, key } = await heldOrganization(world)
        const subscriber = await world.service.post(`/mailing_lists/${listId}/subscribers`, {
          subscriber: { email: 'a@example.com', status: 'bounced' },
        })
        return {
          sent: { params: paramsOf(subscriber), body: { subscriber: { status: 'active' } }, key },
          code: 'validation_failed',
          message: /^status can't be active just now/,
        }
      },
    },
    good: async (world) => ({
      params: paramsOf(await newSubscriber(world)),
      body: {
        subscriber: { status: 'unsubscribed', remove_ip: '192.0.2.7', subscribe_ip: null, remove_time: null },
        run_autoresponders: true,
      },
    }),
    otherParams: missing,
    failures: {
      'a Remote List': onRemoteList({ body: { subscriber: {} } }),
      ...faultyValues(async (world, listId, values) => ({
        params: paramsOf(await newSubscriber(world, listId, { custom_fields: { Plan: 1 } })),
        body: { subscriber: values },
      })),
      'unsetting a required field': async (world) => {
        const { id } = await world.list({ fields: [planField] })
        return {
          sent: {
            params: paramsOf(await newSubscriber(world, id, { custom_fields: { Plan: 1 } })),
            body: { subscriber: { custom_fields: { Plan: null } } },
          },
          code: 'validation_failed',
          message: /can't be unset$/,
        }
      },
      'one more than the limit': async (world) => {
        const { listId, key } = await limitedOrganization(world, 0)
        const subscriber = await world.service.post(`/mailing_lists/${listId}/subscribers`, {
          subscriber: { email: 'a@example.com', status: 'bounced' },
        })
        return {
          sent: { params: paramsOf(subscriber), body: { subscriber: { status: 'active' } }, key },
          code: 'validation_failed',
          message: /limit is reached$/,
        }
      },
      'an email that several have': async (world) => ({
        sent: { params: paramsOf(await twins(world)), body: { subscriber: { status: 'bounced' } } },
        code: 'multiple_records_found',
      }),
      'an identity that is there': async (world) => {
        const one = await newSubscriber(world)
        const other = await newSubscriber(world, one.mailing_list_id)
        return {
          sent: { params: paramsOf(one), body: { subscriber: { email: other.email } } },
          code: 'validation_failed',
          message: /already/,
        }
      },
    },
  },
  triggerAutoresponders: {
    good: async (world) => ({
      params: (await newTrigger(world)).params,
      body: {
        autoresponder_names: ['order *'],
        autoresponder_ids: null,
        create_missing_subscriber: false,
        reactivate_subscriber: true,
        skip_subscription_autoresponders: true,
        content_replacement_fields: { 'Order number': '4711' },
        content_replacement_fields_raw: { 'Order number': '<b>4711</b>' },
        custom_fields: { for_all: {}, for_new: null },
      },
    }),
    otherParams: missing,
    failures: {
      'names beside ids': async (world) => {
        const { params, autoresponderId } = await newTrigger(world)
        const body = { autoresponder_names: ['*'], autoresponder_ids: [autoresponderId] }
        return { sent: { params, body }, code: 'invalid_request', message: /^exactly one of/ }
      },
      'an autoresponder of another list': async (world) => {
        const { params } = await newTrigger(world)
        const { autoresponderId } = await newTrigger(world)
        const body = { autoresponder_ids: [autoresponderId] }
        return { sent: { params, body }, code: 'not_found', message: new RegExp(String(autoresponderId)) }
      },
      'more than 100 entries': async (world) => ({
        sent: {
          params: (await newTrigger(world)).params,
          body: { autoresponder_names: Array(101).fill('*') },
        },
        code: 'requested_too_many',
        message: /101/,
      }),
      'a subscriber who is not active': async (world) => ({
        sent: {
          params: (await newTrigger(world, { status: 'bounced' })).params,
          body: { autoresponder_names: ['*'] },
        },
        code: 'invalid_request',
        message: /bounced/,
      }),
      'an email that several have': async (world) => {
        const params = paramsOf(await twins(world))
        await world.service.collections.autoresponders.insertOne(
          autoresponder({
            _id: 1_000_000 + randomBytes(4).readUInt32BE(),
            organization_id: world.organizationId,
            mailing_list_id: params.mailing_list_id,
            name: 'A',
          }),
        )
        return {
          sent: { params, body: { autoresponder_names: ['*'] } },
          code: 'multiple_records_found',
        }
      },
      'a creation by who may only update': async (world) => {
        const { params } = await newTrigger(world)
        const body = { autoresponder_names: ['*'], create_missing_subscriber: true }
        const message = /subscriber\/create/
        return { sent: { params, body }, code: 'not_authorized', message, status: 403 }
      },
      'a replacement key without a letter': async (world) => ({
        sent: {
          params: (await newTrigger(world)).params,
          body: { autoresponder_names: ['*'], content_replacement_fields: { ' - ': 'x' } },
        },
        code: 'invalid_request',
        message: /letter/,
      }),
      'an unknown custom field': async (world) => ({
        sent: {
          params: (await newTrigger(world)).params,
          body: { autoresponder_names: ['*'], custom_fields: { for_new: { Nobody: 'x' } } },
        },
        code: 'validation_failed',
        message: /^custom_fields.for_new.Nobody/,
      }),
    },
  },
  deleteSubscriber: {
    good: async (world) => ({ params: paramsOf(await newSubscriber(world)) }),
    otherParams: missing,
    failures: {
      'a Remote List': onRemoteList(),
      'everybody, where deletion is disabled': async (world) => ({
        sent: { params: paramsOf(await newSubscriber(world)) },
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

async function newForm(world: World): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/confirmation_forms`, { confirmation_form: { name: 'Welcome' } })
}

const refusedForm =
  (fields: Record<string, unknown>, message: RegExp) =>
  async ({ list }: World): Promise<Failure> => ({
    sent: {
      params: { mailing_list_id: (await list()).id },
      body: { confirmation_form: { name: 'Welcome', ...fields } },
    },
    code: 'validation_failed',
    message,
  })

export const confirmationFormRows: Rows = {
  listConfirmationForms: {
    good: async (world) => ({ params: { mailing_list_id: (await newForm(world)).mailing_list_id } }),
  },
  createConfirmationForm: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      body: {
        confirmation_form: {
          name: 'Welcome',
          from_name: 'Ann',
          from_email: 'ann@example.com',
          subject: 'Please',
          html: '<a href="%%confirmation_url%%">yes</a>',
          text: '%%confirmation_url%%',
        },
      },
    }),
    failures: {
      'a Remote List': onRemoteList({ body: { confirmation_form: { name: 'Welcome' } } }),
      'a blank name': refusedForm({ name: ' ' }, /^name must not be blank$/),
      'a sender who is none': refusedForm({ from_email: 'nobody' }, /^from_email must be/),
      'HTML without the link': refusedForm({ html: 'Hello' }, /^html must hold/),
      'a mail without the link': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          body: { confirmation_form: { name: 'Welcome', text: 'Hello' } },
        },
        code: 'validation_failed',
        message: /^text must hold %%confirmation_url%%$/,
      }),
    },
  },
}
