import type { Json } from '../service.ts'
import { onRemoteList } from './made-subscribers.ts'
import type { Failure, Rows } from './row.ts'
import type { World } from './world.ts'

export async function newForm(world: World): Promise<Json> {
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
