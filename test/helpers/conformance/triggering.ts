import type { RequestError } from '../../../control-plane/api/request-error.ts'
import {
  customFieldsTooLarge,
  identityExists,
  limitHeldByImports,
  limitReached,
  requiredField,
  requiredFieldUnset,
  severalSubscribers,
} from '../../../control-plane/resources/subscribers/refusals.ts'
import {
  faultyKeys,
  faultySections,
  faultyTexts,
  mayNotCreate,
  namesOrIds,
  noAutoresponderNamed,
  noAutoresponderWithId,
  notActive,
  tooManyEntries,
} from '../../../control-plane/resources/subscribers/trigger-autoresponders/refusals.ts'
import type { Json } from '../service.ts'
import {
  lockedOrganization,
  limitedOrganization,
  listOfLongValues,
  newSubscriber,
  noSuchSubscriber,
  paramsOfSubscriber,
  planField,
  twins,
} from './made-subscribers.ts'
import { onRemoteList, type MakeRefused, type Rows, type Sent } from './row.ts'
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

const request =
  (more: object, refused: RequestError): MakeRefused =>
  async (world) => ({
    sent: { params: (await newTrigger(world)).params, body: { autoresponder_names: ['*'], ...more } },
    refused,
  })

const texts = (fields: object, refused: RequestError): MakeRefused =>
  request({ content_replacement_fields: fields }, refused)

const ofTexts = 'content_replacement_fields'

const valuesForAll = (for_all: object, refused: RequestError): MakeRefused =>
  request({ custom_fields: { for_all } }, refused)

/** A bounced subscriber of a full organization is to be reactivated. */
async function reactivation(world: World, { listId, key }: { listId: number; key: string }): Promise<Sent> {
  const { post } = world.service
  await post(`/mailing_lists/${listId}/autoresponders`, autoresponder)
  const made = await post(`/mailing_lists/${listId}/subscribers`, {
    subscriber: { email: 'a@example.com', status: 'bounced' },
  })
  const body = { autoresponder_names: ['*'], reactivate_subscriber: true }
  return { params: paramsOfSubscriber(made), body, key }
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
    slowRefusals: [
      async (world) => ({
        sent: await reactivation(world, await lockedOrganization(world)),
        refused: limitHeldByImports(),
      }),
    ],
    refusals: [
      onRemoteList({ params: { id_or_email: 1 }, body: { autoresponder_names: ['*'] } }),
      async (world) => {
        const { params, autoresponderId } = await newTrigger(world)
        const body = { autoresponder_names: ['*'], autoresponder_ids: [autoresponderId] }
        return { sent: { params, body }, refused: namesOrIds() }
      },
      // The autoresponder is another list's.
      async (world) => {
        const { params } = await newTrigger(world)
        const { autoresponderId } = await newTrigger(world)
        const body = { autoresponder_ids: [autoresponderId] }
        return {
          sent: { params, body },
          refused: noAutoresponderWithId(params.mailing_list_id, [autoresponderId]),
        }
      },
      async (world) => {
        const { params } = await newTrigger(world)
        const names = ['Nothing*']
        return {
          sent: { params, body: { autoresponder_names: names } },
          refused: noAutoresponderNamed(params.mailing_list_id, names),
        }
      },
      request({ autoresponder_names: Array(101).fill('*') }, tooManyEntries(101)),
      async (world) => {
        const { params } = await newTrigger(world, { status: 'bounced' })
        return {
          sent: { params, body: { autoresponder_names: ['*'] } },
          refused: notActive(params.id_or_email, 'bounced'),
        }
      },
      async (world) => {
        const several = await triggerOfTwins(world)
        return {
          sent: { params: paramsOfSubscriber(several), body: { autoresponder_names: ['*'] } },
          refused: severalSubscribers(several.id),
        }
      },
      async (world) => {
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
          refused: identityExists(),
        }
      },
      async (world) => ({
        sent: {
          // The subscriber isn't there; for one that is, the permission to update is enough.
          params: { ...(await newTrigger(world)).params, id_or_email: 'new@example.com' },
          body: { autoresponder_names: ['*'], create_missing_subscriber: true },
        },
        refused: mayNotCreate(),
      }),
      async (world) => {
        const { params } = await newTrigger(world)
        return {
          sent: {
            params: { ...params, id_or_email: 'new@example.com' },
            body: { autoresponder_names: ['*'], create_missing_subscriber: true },
            key: world.admin,
          },
          refused: requiredField('Plan'),
        }
      },
      async (world) => ({
        sent: await reactivation(world, await limitedOrganization(world, 0)),
        refused: limitReached(),
      }),
      texts({ '': 'x' }, faultyKeys.length('', ofTexts)),
      texts({ 'a\0': 'x' }, faultyKeys.nul('a\0', ofTexts)),
      texts({ ' - ': 'x' }, faultyKeys.noLetter(' - ', ofTexts)),
      texts(
        { 'Order number': 'x', order_NUMBER: 'y' },
        faultyKeys.same('order_NUMBER', ofTexts, 'Order number'),
      ),
      texts({ Order: 1 }, faultyTexts.notText(`${ofTexts}.Order`)),
      texts({ Order: 'a\0' }, faultyTexts.nul(`${ofTexts}.Order`)),
      texts({ Order: 'x'.repeat(100_000) }, faultyTexts.tooLong(100_005)),
      valuesForAll({ Nothing: 'x' }, faultySections.for_all.unknown('Nothing')),
      valuesForAll({ PLAN: 1, Plan: 1 }, faultySections.for_all.twice('Plan')),
      valuesForAll({ Plan: 'x' }, faultySections.for_all.value('Plan', 'an integer')),
      valuesForAll({ Plan: null }, requiredFieldUnset('Plan')),
      async (world) => {
        const { id, filled, oneMore } = await listOfLongValues(world)
        await world.service.post(`/mailing_lists/${id}/autoresponders`, autoresponder)
        const params = paramsOfSubscriber(await newSubscriber(world, id, filled))
        const body = { autoresponder_names: ['*'], custom_fields: { for_all: oneMore } }
        return { sent: { params, body }, refused: customFieldsTooLarge() }
      },
    ],
  },
}
