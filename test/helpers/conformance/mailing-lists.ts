import type { Rows } from './row.ts'
import type { World } from './world.ts'

/** Makes the only field of a new list its primary key. */
async function primaryKeyChange({ list, service, admin }: World, required: boolean) {
  const { id } = await list({ fields: [{ name: 'Number', field_type: 'number', required }] })
  const fields = await service.call('GET', `/mailing_lists/${id}/custom_fields`, undefined, { key: admin })
  return {
    params: { id: Number(id) },
    body: { mailing_list: { primary_key_custom_field_id: fields.body.data[0].id } },
  }
}

export const mailingListRows: Rows = {
  listMailingLists: { good: () => ({ query: '?page=0&per_page=1' }) },
  listMailingListsOfOrganization: {
    good: ({ organizationId }) => ({
      params: { organization_id: organizationId },
      query: '?page=0&per_page=1',
    }),
  },
  getMailingList: { good: async ({ list }) => ({ params: { id: (await list()).id } }) },
  createMailingList: {
    good: ({ unique }) => ({
      body: {
        mailing_list: { name: unique('List'), has_format: true, has_confirmed: true, is_remote_list: false },
      },
    }),
    failures: {
      'a blank name': () => ({
        sent: { body: { mailing_list: { name: ' ' } } },
        code: 'validation_failed',
        message: /^name must not be blank$/,
      }),
      'an organization that is not there': ({ system }) => ({
        sent: { key: system, body: { mailing_list: { name: 'x', organization_id: 999_999 } } },
        code: 'validation_failed',
        message: /^organization_id/,
      }),
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
      'a blank name': async ({ list }) => ({
        sent: { params: { id: (await list()).id }, body: { mailing_list: { name: ' ' } } },
        code: 'validation_failed',
        message: /^name must not be blank$/,
      }),
      'a name that is taken, in any case': async ({ list }) => ({
        sent: {
          params: { id: (await list()).id },
          body: { mailing_list: { name: String((await list()).name).toUpperCase() } },
        },
        code: 'validation_failed',
        message: /^name .* is taken/,
      }),
      'a primary key that is not required': async (world) => ({
        sent: await primaryKeyChange(world, false),
        code: 'validation_failed',
        message: /must name a required field/,
      }),
      'another primary key while there are subscribers': async (world) => {
        const sent = await primaryKeyChange(world, true)
        await world.post(`/mailing_lists/${sent.params.id}/subscribers`, {
          subscriber: { email: 'ann@example.com', custom_fields: { Number: 1 } },
        })
        return { sent, code: 'validation_failed', message: /only while the list is empty/ }
      },
      'another primary key while an import is unfinished': async (world) => {
        const sent = await primaryKeyChange(world, true)
        await world.post(`/mailing_lists/${sent.params.id}/subscriber_imports`, {
          subscriber_import: {
            begins_at: '2030-01-31T08:00:00Z',
            column_mapping: ['email'],
            file_source: { type: 'json', content: 'ann@example.com' },
          },
        })
        return { sent, code: 'validation_failed', message: /is unfinished$/ }
      },
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
