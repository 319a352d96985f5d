import type { Json } from '../service.ts'
import { onRemoteList, type Rows } from './row.ts'
import type { World } from './world.ts'

export async function newForm(world: World): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/confirmation_forms`, { confirmation_form: { name: 'Welcome' } })
}

const paramsOf = (form: Json) => ({ mailing_list_id: form.mailing_list_id, id: form.id })

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
    refusals: [onRemoteList({ body: { confirmation_form: { name: 'Welcome' } } })],
  },
  getConfirmationForm: { good: async (world) => ({ params: paramsOf(await newForm(world)) }) },
  updateConfirmationForm: {
    good: async (world) => ({
      params: paramsOf(await newForm(world)),
      body: {
        confirmation_form: {
          name: 'Renamed',
          from_name: null,
          from_email: 'bob@example.com',
          subject: 'Please',
          html: '<a href="%%confirmation_url%%">yes</a>',
          text: '%%confirmation_url%%',
        },
      },
    }),
  },
  deleteConfirmationForm: { good: async (world) => ({ params: paramsOf(await newForm(world)) }) },
}
