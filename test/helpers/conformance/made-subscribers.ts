import type { Json } from '../service.ts'
import type { World } from './world.ts'

/** Subscribers, and lists for them, that the rows of their endpoints need. */

export async function newSubscriber(world: World, listId?: number, subscriber: object = {}): Promise<Json> {
  const id = listId ?? (await world.list()).id
  const email = `${world.unique('s').replace(' ', '-')}@example.com`
  return world.post(`/mailing_lists/${id}/subscribers`, { subscriber: { email, ...subscriber } })
}

export const paramsOfSubscriber = (subscriber: Json) => ({
  mailing_list_id: subscriber.mailing_list_id,
  id_or_email: subscriber.id,
})

/** A list on which emails aren't the identity, with two subscribers of the same email. */
export async function twins(world: World): Promise<Json> {
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

export const noSuchSubscriber = [
  '999999999',
  'nobody@example.com',
  'abc',
  '0',
  '-1',
  '01',
  '9'.repeat(30),
  '$gt',
]

export const planField = { name: 'Plan', field_type: 'number', required: true }

/** 16 values of this length are within the limit of a subscriber's values, 17 above. */
const longText = '𝄞'.repeat(65_500)

/** A list with 15 such values as defaults, and a subscriber's values for one more and for two more. */
export async function listOfLongValues({ list }: World) {
  const fields = Array.from({ length: 15 }, (_, i) => ({ name: `F${i}`, default: longText }))
  const more = [{ name: 'A' }, { name: 'B' }]
  const { id } = await list({ fields: [...fields, ...more].map((one) => ({ field_type: 'text', ...one })) })
  const values = (custom_fields: object) => ({ apply_custom_field_defaults: true, custom_fields })
  return {
    id: Number(id),
    filled: values({ A: longText }),
    overfilled: values({ A: longText, B: longText }),
    oneMore: { B: longText },
  }
}

/** A list of an organization with that limit; with the key of its admin. */
export async function limitedOrganization(
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

/** The same, where an import has reserved the last of the quota and doesn't give it back. */
export async function lockedOrganization(world: World): Promise<{ listId: number; key: string }> {
  const limited = await limitedOrganization(world, 1)
  const holder = { _id: `held:${limited.listId}`, organization_id: limited.organizationId, quota_reserved: 1 }
  await world.service.db
    .collection<typeof holder & { dry_run: boolean }>('import_chunks')
    .insertOne({ ...holder, dry_run: false }, { bypassDocumentValidation: true })
  return limited
}
