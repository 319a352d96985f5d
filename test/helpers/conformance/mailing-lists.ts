import type { Rows } from './row.ts'

export const mailingListRows: Rows = {
  listMailingLists: { good: () => ({ query: '?page=0&per_page=1' }) },
  getMailingList: { good: async ({ list }) => ({ params: { id: (await list()).id } }) },
  createMailingList: {
    good: ({ unique }) => ({
      body: {
        mailing_list: { name: unique('List'), has_format: true, has_confirmed: true, is_remote_list: false },
      },
    }),
    failures: {
      'a name that is taken, in any case': async ({ list }) => ({
        sent: { body: { mailing_list: { name: String((await list()).name).toUpperCase() } } },
        code: 'validation_failed',
        message: /^name .* is taken/,
      }),
      'a primary key, before there is a field': () => ({
        sent: { body: { mailing_list: { name: 'x', primary_key_custom_field_id: 5 } } },
        code: 'validation_failed',
        message: /^primary_key_custom_field_id names no custom field/,
      }),
    },
  },
  updateMailingList: {
    good: async ({ list, unique }) => ({
      params: { id: (await list()).id },
      body: { mailing_list: { name: unique('Renamed'), primary_key_custom_field_id: null } },
    }),
    failures: {
      'a primary key that names no field': async ({ list }) => ({
        sent: {
          params: { id: (await list()).id },
          body: { mailing_list: { primary_key_custom_field_id: 999_999 } },
        },
        code: 'validation_failed',
        message: /names no custom field of list/,
      }),
    },
  },
}
