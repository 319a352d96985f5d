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
const faulty: Record<string, [settings: Record<string, unknown>, message: RegExp]> = {
  'a blank name': [{ field_type: 'text', name: ' ' }, /^name must not be blank/],
  'the name of a built-in column': [{ field_type: 'text', name: 'Email' }, /built-in/],
  'a name that no hash can hold': [{ field_type: 'text', name: '__proto__' }, /^name can't be/],
  'a name that is taken, in any case': [{ field_type: 'text', name: 'PLAN' }, /is taken/],
  'a select without options': [{ field_type: 'select_single_dropdown', options: [] }, /at least 1 entry/],
  'options of a text': [{ field_type: 'text', options: ['a'] }, /^options are not possible/],
  'options that are the same': [
    { field_type: 'select_single_dropdown', options: ['a', 'A'] },
    /^options must differ/,
  ],
  'a length of a number': [{ field_type: 'number', minimum_length: 1 }, /^minimum_length and/],
  'a value of a text': [{ field_type: 'text', minimum_value: 1 }, /^minimum_value and/],
  'lengths that leave none': [
    { field_type: 'text', minimum_length: 2, maximum_length: 1 },
    /^minimum_length must not be more/,
  ],
  'values that leave none': [
    { field_type: 'number', minimum_value: 2, maximum_value: 1 },
    /^minimum_value must not be more/,
  ],
  'a default that the field refuses': [{ field_type: 'number', default: 'x' }, /^default must be an integer/],
}

function faultySettings(
  requestWith: (world: World, settings: Record<string, unknown>) => Promise<Sent>,
): NonNullable<Row['failures']> {
  return Object.fromEntries(
    Object.entries(faulty).map(([title, [settings, message]]) => [
      title,
      async (world: World) => ({
        sent: await requestWith(world, settings),
        code: 'validation_failed',
        message,
      }),
    ]),
  )
}

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
    failures: {
      ...faultySettings(async (world, settings) => ({
        params: { mailing_list_id: (await newField(world)).mailing_list_id },
        body: { custom_field: { name: 'Other', ...settings } },
      })),
      'one field more than 500': async (world) => {
        const { mailing_list_id } = await newField(world)
        await addFields(
          world,
          mailing_list_id,
          Array.from({ length: 499 }, () => ({ options: [] })),
        )
        return {
          sent: {
            params: { mailing_list_id },
            body: { custom_field: { name: 'One more', field_type: 'text' } },
          },
          code: 'validation_failed',
          message: /has 500 custom fields, and at most 500 are possible$/,
        }
      },
      'more than 4 MB of definitions': async (world) => {
        const { mailing_list_id } = await newField(world)
        await addFields(world, mailing_list_id, [{ options: ['x'.repeat(4_000_000)] }])
        return {
          sent: {
            params: { mailing_list_id },
            body: { custom_field: { name: 'One more', field_type: 'text' } },
          },
          code: 'validation_failed',
          message: /more than 4000000 bytes in all/,
        }
      },
    },
  },
  updateCustomField: {
    good: async (world) => ({
      params: paramsOf(await newField(world)),
      body: { custom_field: { name: 'Tariff', maximum_length: 20 } },
    }),
    failures: {
      ...faultySettings(async (world, { field_type, ...settings }) => {
        const first = await newField(world)
        const options = field_type === 'select_single_dropdown' ? { options: ['a'] } : {}
        const field = await world.post(`/mailing_lists/${first.mailing_list_id}/custom_fields`, {
          custom_field: { name: 'Another', field_type, ...options },
        })
        return { params: paramsOf(field), body: { custom_field: settings } }
      }),
      'a primary key that is not required': async (world) => ({
        sent: {
          params: paramsOf(await newPrimaryKey(world)),
          body: { custom_field: { required: false } },
        },
        code: 'validation_failed',
        message: /^required must be true/,
      }),
      'more than 4 MB of definitions': async (world) => {
        const field = await newField(world, { field_type: 'select_single_dropdown', options: ['Free'] })
        await addFields(world, field.mailing_list_id, [{ options: ['x'.repeat(4_000_000)] }])
        return {
          sent: { params: paramsOf(field), body: { custom_field: { options: ['Free', 'One more'] } } },
          code: 'validation_failed',
          message: /more than 4000000 bytes in all/,
        }
      },
      'another type': async (world) => ({
        sent: { params: paramsOf(await newField(world)), body: { custom_field: { field_type: 'number' } } },
        code: 'validation_failed',
        message: /^field_type/,
      }),
    },
  },
  deleteCustomField: {
    good: async (world) => ({ params: paramsOf(await newField(world)) }),
    failures: {
      'the primary key': async (world) => ({
        sent: { params: paramsOf(await newPrimaryKey(world)) },
        code: 'validation_failed',
        message: /primary key/,
      }),
      'a field that an unfinished import maps': async (world) => {
        const field = await newField(world)
        await world.post(`/mailing_lists/${field.mailing_list_id}/subscriber_imports`, {
          subscriber_import: {
            begins_at: '2030-01-31T08:00:00Z',
            column_mapping: ['email', 'Plan'],
            file_source: { type: 'json', content: 'ann@example.com' },
          },
        })
        return {
          sent: { params: paramsOf(field) },
          code: 'validation_failed',
          message: /is mapped by import/,
        }
      },
    },
  },
}
