import { keyHashSecret } from '../../../shared/api-keys.ts'
import { unsubscribeToken } from '../../../shared/signed-token.ts'
import type { Json } from '../service.ts'
import type { Rows } from './row.ts'
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

const noSuchSubscriber = ['999999999', 'nobody@example.com', 'abc', '0', '-1', '01', '9'.repeat(30), '$gt']

/** Who isn't there is left out of a list that is read, and is missing where one is written. */
const leftOut = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: null })) }
const missing = { id_or_email: noSuchSubscriber.map((value) => ({ value, code: 'not_found' })) }
const anyEmail = { email: [...noSuchSubscriber, '%', '*'].map((value) => ({ value, code: null })) }

export const subscriberRows: Rows = {
  listSubscribers: {
    good: async (world) => ({
      params: { mailing_list_id: (await newSubscriber(world)).mailing_list_id },
      query: '?per_page=1',
    }),
    failures: {
      'a token beside a page': async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?page=1&page_token=x' },
        code: 'invalid_request',
        message: /^page_token/,
      }),
      'a token that it never gave': async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?page_token=x' },
        code: 'invalid_request',
        message: /^page_token/,
      }),
    },
  },
  getSubscribers: {
    good: async (world) => ({ params: paramsOf(await newSubscriber(world)) }),
    otherParams: { ...leftOut },
    failures: {
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
      'an unknown custom field': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          body: { subscriber: { email: 'a@example.com', custom_fields: { constructor: 'x' } } },
        },
        code: 'validation_failed',
        message: /^custom_fields.constructor/,
      }),
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
    good: async (world) => ({
      params: paramsOf(await newSubscriber(world)),
      body: {
        subscriber: { status: 'unsubscribed', remove_ip: '192.0.2.7', subscribe_ip: null, remove_time: null },
        run_autoresponders: true,
      },
    }),
    otherParams: missing,
    failures: {
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
  deleteSubscriber: {
    good: async (world) => ({ params: paramsOf(await newSubscriber(world)) }),
    otherParams: missing,
  },
  unsubscribe: {
    good: async (world) => ({
      body: { unsubscribe: await unsubscription(world, await newSubscriber(world)) },
    }),
    failures: {
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
  },
  findSubscribersByEmailInList: {
    good: async (world) => {
      const { mailing_list_id, email } = await newSubscriber(world)
      return { params: { mailing_list_id, email } }
    },
    otherParams: anyEmail,
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

async function newForm(world: World): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/confirmation_forms`, { confirmation_form: { name: 'Welcome' } })
}

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
