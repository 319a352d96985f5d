import type { Json } from '../service.ts'
import type { Rows } from './row.ts'
import type { World } from './world.ts'

async function newField(world: World, field: Record<string, unknown> = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/custom_fields`, {
    custom_field: { name: 'Plan', field_type: 'text', ...field },
  })
}

const paramsOf = (field: Json) => ({ mailing_list_id: field.mailing_list_id, id: field.id })

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
      'the name of a built-in column': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          body: { custom_field: { name: 'Email', field_type: 'text' } },
        },
        code: 'validation_failed',
        message: /^name/,
      }),
      'a name that is taken, in any case': async (world) => ({
        sent: {
          params: { mailing_list_id: (await newField(world)).mailing_list_id },
          body: { custom_field: { name: 'PLAN', field_type: 'text' } },
        },
        code: 'validation_failed',
        message: /^name/,
      }),
    },
  },
  updateCustomField: {
    good: async (world) => ({
      params: paramsOf(await newField(world)),
      body: { custom_field: { name: 'Tariff', maximum_length: 20 } },
    }),
    failures: {
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
      'the primary key': async (world) => {
        const field = await newField(world, { required: true })
        const answer = await world.service.call(
          'PUT',
          `/mailing_lists/${field.mailing_list_id}`,
          { mailing_list: { primary_key_custom_field_id: field.id } },
          { key: world.admin },
        )
        if (!answer.body.success) throw new Error(answer.text)
        return { sent: { params: paramsOf(field) }, code: 'validation_failed', message: /primary key/ }
      },
    },
  },
}
