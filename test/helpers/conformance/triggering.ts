import type { Json } from '../service.ts'
import {
  lockedOrganization,
  limitedOrganization,
  listOfLongValues,
  newSubscriber,
  noSuchSubscriber,
  onRemoteList,
  paramsOfSubscriber,
  planField,
  twins,
} from './made-subscribers.ts'
import type { Failure, MakeFailure, Rows } from './row.ts'
import type { World } from './world.ts'
import { present } from '../present.ts'

const autoresponder = { autoresponder: { name: 'Order placed', trigger: 'api' } }

/** A subscriber and an autoresponder of one list, which has the required number `Plan`. */
async function newTrigger(world: World, subscriber: object = {}) {
  const { id: listId } = await world.list({ fields: [planField] })
  const made = await newSubscriber(world, listId, { custom_fields: { Plan: 1 }, ...subscriber })
  const { id: autoresponderId } = await world.post(`/mailing_lists/${listId}/autoresponders`, autoresponder)
  return { params: paramsOfSubscriber(made), autoresponderId }
}

const refused =
  (more: object, code: string, message: RegExp, subscriber: object = {}): MakeFailure =>
  async (world) => ({
    sent: {
      params: (await newTrigger(world, subscriber)).params,
      body: { autoresponder_names: ['*'], ...more },
    },
    code,
    message,
  })

const refusedTexts = (fields: object, code: string, message: RegExp): MakeFailure =>
  refused({ content_replacement_fields: fields }, code, message)

const refusedFields = (for_all: object, message: RegExp): MakeFailure =>
  refused({ custom_fields: { for_all } }, 'validation_failed', message)

/** A bounced subscriber of a full organization is to be reactivated. */
async function withoutQuota(
  world: World,
  { listId, key }: { listId: number; key: string },
  message: RegExp,
): Promise<Failure> {
  const { post } = world.service
  await post(`/mailing_lists/${listId}/autoresponders`, autoresponder)
  const made = await post(`/mailing_lists/${listId}/subscribers`, {
    subscriber: { email: 'a@example.com', status: 'bounced' },
  })
  const body = { autoresponder_names: ['*'], reactivate_subscriber: true }
  return { sent: { params: paramsOfSubscriber(made), body, key }, code: 'validation_failed', message }
}

/** Two subscribers of one email, and an autoresponder. */
async function triggerOfTwins(world: World): Promise<Json> {
  const made = await twins(world)
  await world.post(`/mailing_lists/${made.mailing_list_id}/autoresponders`, autoresponder)
  return made
}

export const triggeringRows: Rows = {
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
    otherParams: { id_or_email: noSuchSubscriber.map((value) => ({ value, code: 'not_found' })) },
    slowFailures: {
      'a place that an import holds': async (world) =>
        withoutQuota(world, await lockedOrganization(world), /^status can't be active just now/),
    },
    failures: {
      'a Remote List': onRemoteList({ body: { autoresponder_names: ['*'] } }, { id_or_email: 1 }),
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
      'a name that no autoresponder has': refused(
        { autoresponder_names: ['Nothing*'] },
        'not_found',
        /has no autoresponder "Nothing\*"$/,
      ),
      'more than 100 entries': refused(
        { autoresponder_names: Array(101).fill('*') },
        'requested_too_many',
        /101/,
      ),
      'a subscriber who is not active': refused({}, 'invalid_request', /is bounced/, { status: 'bounced' }),
      'an email that several have': async (world) => ({
        sent: {
          params: paramsOfSubscriber(await triggerOfTwins(world)),
          body: { autoresponder_names: ['*'] },
        },
        code: 'multiple_records_found',
      }),
      'an identity that is there': async (world) => {
        const { mailing_list_id } = await triggerOfTwins(world)
        const { subscribers } = world.service.collections
        const first = present(
          await subscribers.findOne({ mailing_list_id }, { sort: { id: 1 } }),
          'a subscriber',
        )
        return {
          sent: {
            params: { mailing_list_id, id_or_email: first.id },
            body: { autoresponder_names: ['*'], custom_fields: { for_all: { Number: 2 } } },
          },
          code: 'validation_failed',
          message: /already/,
        }
      },
      'a creation by who may only update': async (world) => ({
        sent: {
          // The subscriber isn't there; for one that is, the permission to update is enough.
          params: { ...(await newTrigger(world)).params, id_or_email: 'new@example.com' },
          body: { autoresponder_names: ['*'], create_missing_subscriber: true },
        },
        code: 'not_authorized',
        message: /subscriber\/create/,
        status: 403,
      }),
      'a creation without a required value': async (world) => {
        const { params } = await newTrigger(world)
        return {
          sent: {
            params: { ...params, id_or_email: 'new@example.com' },
            body: { autoresponder_names: ['*'], create_missing_subscriber: true },
            key: world.admin,
          },
          code: 'validation_failed',
          message: /^custom_fields.Plan is required$/,
        }
      },
      'one more than the limit': async (world) =>
        withoutQuota(world, await limitedOrganization(world, 0), /limit is reached$/),
      'a text without a key': refusedTexts({ '': 'x' }, 'invalid_request', /1 to 50 characters$/),
      'a key that holds NUL': refusedTexts({ 'a\0': 'x' }, 'invalid_request', /NUL characters$/),
      'a key without a letter': refusedTexts({ ' - ': 'x' }, 'invalid_request', /letter or a digit$/),
      'a key that is given twice': refusedTexts(
        { 'Order number': 'x', order_NUMBER: 'y' },
        'invalid_request',
        /is the same as/,
      ),
      'a text that is none': refusedTexts({ Order: 1 }, 'validation_failed', /must be a string$/),
      'a text that holds NUL': refusedTexts({ Order: 'a\0' }, 'validation_failed', /NUL characters$/),
      'texts that are too long': refusedTexts(
        { Order: 'x'.repeat(100_000) },
        'validation_failed',
        /at most 100000 characters together/,
      ),
      'an unknown custom field': refusedFields({ Nothing: 'x' }, /^custom_fields.for_all.Nothing is no/),
      'a field that is given twice': refusedFields({ PLAN: 1, Plan: 1 }, /is given twice$/),
      'a value that the field refuses': refusedFields({ Plan: 'x' }, /^custom_fields.for_all.Plan must be/),
      'unsetting a required field': refusedFields({ Plan: null }, /can't be unset$/),
      'values of more than 4 MiB': async (world) => {
        const { id, filled, oneMore } = await listOfLongValues(world)
        await world.service.post(`/mailing_lists/${id}/autoresponders`, autoresponder)
        const params = paramsOfSubscriber(await newSubscriber(world, id, filled))
        const body = { autoresponder_names: ['*'], custom_fields: { for_all: oneMore } }
        return { sent: { params, body }, code: 'validation_failed', message: /would hold more than/ }
      },
    },
  },
}
