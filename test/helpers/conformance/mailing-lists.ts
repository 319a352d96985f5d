import {
  keyDoesNotFit,
  keyNamesNoField,
  keyOfFullList,
  keyWhileImporting,
  nameTaken,
} from '../../../control-plane/resources/mailing-lists/refusals.ts'
import { noSuchOrganization } from '../../../control-plane/api/scope.ts'
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
    refusals: [
      ({ system }) => ({
        sent: { key: system, body: { mailing_list: { name: 'x', organization_id: 999_999 } } },
        refused: noSuchOrganization(999_999),
      }),
      async ({ list }) => {
        const name = String((await list()).name).toUpperCase()
        return { sent: { body: { mailing_list: { name } } }, refused: nameTaken(name) }
      },
    ],
  },
  updateMailingList: {
    good: async ({ list, unique }) => ({
      params: { id: (await list()).id },
      body: { mailing_list: { name: unique('Renamed'), primary_key_custom_field_id: null } },
    }),
    refusals: [
      async ({ list }) => {
        const name = String((await list()).name).toUpperCase()
        return {
          sent: { params: { id: (await list()).id }, body: { mailing_list: { name } } },
          refused: nameTaken(name),
        }
      },
      async (world) => ({ sent: await primaryKeyChange(world, false), refused: keyDoesNotFit() }),
      async (world) => {
        const sent = await primaryKeyChange(world, true)
        await world.post(`/mailing_lists/${sent.params.id}/subscribers`, {
          subscriber: { email: 'ann@example.com', custom_fields: { Number: 1 } },
        })
        return { sent, refused: keyOfFullList() }
      },
      async (world) => {
        const sent = await primaryKeyChange(world, true)
        const { id } = await world.scheduledImport(sent.params.id, ['email'])
        return { sent, refused: keyWhileImporting(id, 'scheduled') }
      },
      async ({ list }) => {
        const { id } = await list()
        return {
          sent: { params: { id }, body: { mailing_list: { primary_key_custom_field_id: 999_999 } } },
          refused: keyNamesNoField(id),
        }
      },
    ],
  },
}
