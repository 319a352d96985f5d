import type { RequestError } from '../../../control-plane/api/request-error.ts'
import {
  faultySettings,
  fieldsTooLarge,
  isMapped,
  isPrimaryKey,
  keyMustBeRequired,
  nameTaken,
  otherType,
  tooManyFields,
} from '../../../control-plane/resources/custom-fields/refusals.ts'
import type { Json } from '../service.ts'
import type { Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'
import { present } from '../present.ts'

async function newField(world: World, field: Record<string, unknown> = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/custom_fields`, {
    custom_field: { name: 'Plan', field_type: 'text', ...field },
  })
}

const paramsOf = (field: Json) => ({ mailing_list_id: field.mailing_list_id, id: field.id })

async function newPrimaryKey(world: World): Promise<Json> {
  const field = await newField(world, { required: true })
  const answer = await world.service.call(
    'PUT',
    `/mailing_lists/${field.mailing_list_id}`,
    { mailing_list: { primary_key_custom_field_id: field.id } },
    { key: world.admin },
  )
  if (!answer.body.success) throw new Error(answer.text)
  return field
}

/** Settings that don't go together, on a list that has a field `Plan`. */
const faulty: [settings: Record<string, unknown>, refused: RequestError][] = [
  [{ field_type: 'text', name: 'Email' }, faultySettings.nameOfColumn('Email')],
  [{ field_type: 'text', name: '__proto__' }, faultySettings.nameOfPrototype()],
  [{ field_type: 'text', name: 'PLAN' }, nameTaken('PLAN')],
  [
    { field_type: 'select_single_dropdown', options: [] },
    faultySettings.optionsMissing('select_single_dropdown'),
  ],
  [{ field_type: 'text', options: ['a'] }, faultySettings.optionsOfOtherType('text')],
  [{ field_type: 'select_single_dropdown', options: ['a', 'A'] }, faultySettings.sameOptions()],
  [{ field_type: 'number', minimum_length: 1 }, faultySettings.lengthsOfOtherType('number')],
  [{ field_type: 'text', minimum_value: 1 }, faultySettings.valuesOfOtherType('text')],
  [{ field_type: 'text', minimum_length: 2, maximum_length: 1 }, faultySettings.noLengthPossible()],
  [{ field_type: 'number', minimum_value: 2, maximum_value: 1 }, faultySettings.noValuePossible()],
  [{ field_type: 'number', default: 'x' }, faultySettings.badDefault('an integer')],
]

const faultyRequests = (
  requestWith: (world: World, settings: Record<string, unknown>) => Promise<Sent>,
): NonNullable<Row['refusals']> =>
  faulty.map(([settings, refused]) => async (world) => ({
    sent: await requestWith(world, settings),
    refused,
  }))

/** Definitions that leave no bytes for more. */
const largeOptions = [{ options: ['x'.repeat(4_000_000)] }]

/**
 * Adds fields like the one that the list has. They are inserted directly, as a request for each would take minutes.
 */
async function addFields(world: World, listId: number, fields: { options: string[] }[]): Promise<void> {
  const { customFields } = world.service.collections
  const first = present(await customFields.findOne({ mailing_list_id: listId }), 'a field')
  await customFields.insertMany(
    fields.map(({ options }, i) => ({
      ...first,
      _id: 1_000_000_000 + listId * 1_000 + i,
      name: `Further ${i}`,
      name_key: `further ${i}`,
      options,
    })),
  )
}

const oneMore = (mailing_list_id: number): Sent => ({
  params: { mailing_list_id },
  body: { custom_field: { name: 'One more', field_type: 'text' } },
})

export const customFieldRows: Rows = {
  listCustomFields: { good: async ({ list }) => ({ params: { mailing_list_id: (await list()).id } }) },
  createCustomField: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      body: {
        custom_field: {
          name: 'Plan',
          field_type: 'select_single_dropdown',
          options: ['Free'],
          default: 'Free',
        },
      },
    }),
    refusals: [
      ...faultyRequests(async (world, settings) => ({
        params: { mailing_list_id: (await newField(world)).mailing_list_id },
        body: { custom_field: { name: 'Other', ...settings } },
      })),
      async (world) => {
        const { mailing_list_id } = await newField(world)
        const others = Array.from({ length: 499 }, () => ({ options: [] }))
        await addFields(world, mailing_list_id, others)
        return { sent: oneMore(mailing_list_id), refused: tooManyFields(mailing_list_id, 500) }
      },
      async (world) => {
        const { mailing_list_id } = await newField(world)
        await addFields(world, mailing_list_id, largeOptions)
        return { sent: oneMore(mailing_list_id), refused: fieldsTooLarge(mailing_list_id) }
      },
    ],
  },
  getCustomField: { good: async (world) => ({ params: paramsOf(await newField(world)) }) },
  updateCustomField: {
    good: async (world) => ({
      params: paramsOf(await newField(world)),
      body: { custom_field: { name: 'Tariff', maximum_length: 20 } },
    }),
    refusals: [
      ...faultyRequests(async (world, { field_type, ...settings }) => {
        const first = await newField(world)
        const options = field_type === 'select_single_dropdown' ? { options: ['a'] } : {}
        const field = await world.post(`/mailing_lists/${first.mailing_list_id}/custom_fields`, {
          custom_field: { name: 'Another', field_type, ...options },
        })
        return { params: paramsOf(field), body: { custom_field: settings } }
      }),
      async (world) => ({
        sent: { params: paramsOf(await newPrimaryKey(world)), body: { custom_field: { required: false } } },
        refused: keyMustBeRequired(),
      }),
      async (world) => {
        const field = await newField(world, { field_type: 'select_single_dropdown', options: ['Free'] })
        await addFields(world, field.mailing_list_id, largeOptions)
        return {
          sent: { params: paramsOf(field), body: { custom_field: { options: ['Free', 'One more'] } } },
          refused: fieldsTooLarge(field.mailing_list_id),
        }
      },
      async (world) => ({
        sent: { params: paramsOf(await newField(world)), body: { custom_field: { field_type: 'number' } } },
        refused: otherType(),
      }),
    ],
  },
  deleteCustomField: {
    good: async (world) => ({ params: paramsOf(await newField(world)) }),
    refusals: [
      async (world) => {
        const field = await newPrimaryKey(world)
        return { sent: { params: paramsOf(field) }, refused: isPrimaryKey(field.id) }
      },
      async (world) => {
        const field = await newField(world)
        const { id } = await world.scheduledImport(field.mailing_list_id, ['email', 'Plan'])
        return { sent: { params: paramsOf(field) }, refused: isMapped(field.id, id, 'scheduled') }
      },
    ],
  },
}
