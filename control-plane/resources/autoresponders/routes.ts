import { z } from 'zod'
import type { Caller } from '../../../shared/api-keys.ts'
import type { MailingListDocument } from '../../../shared/schemas/mailing-list.ts'
import { refuseUnless } from '../../api/authorization.ts'
import { endpoint, orFor, permission } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import {
  autoresponderChange,
  autoresponderCreation,
  autoresponderQuery,
  autoresponderView,
  exampleAutoresponder,
  minimalAutoresponderView,
  type AutoresponderChange,
} from './schemas.ts'
import { autoresponderNames, changeAutoresponder, createAutoresponder, findAutoresponder } from './service.ts'
import { viewer } from './view.ts'

const tag = 'Autoresponders'
const path = '/mailing_lists/:mailing_list_id/autoresponders'
const mayUpdate = permission('autoresponder', 'update')
const remoteList = 'mailing list 12 is a Remote List, which has no subscribers here'

export const autoresponderEndpoints = [
  endpoint({
    method: 'get',
    path,
    operationId: 'listAutoresponders',
    summary: "The list's autoresponders, by id, all of them at once",
    tag,
    needs: 'any_key',
    query: autoresponderQuery,
    reply: {
      data: z.array(z.union([autoresponderView, minimalAutoresponderView])),
      example: [exampleAutoresponder],
    },
    refusals: { invalid_request: remoteList },
    async handle({ deps, caller, params, query }) {
      const list = await findList(deps, caller, params['mailing_list_id'])
      const { name, minimal } = query()
      const named = await autoresponderNames(deps, list, name)
      if (minimal === 'true' || minimal === '1') return { data: named }
      const documents = await deps.database.collections.autoresponders
        .find({ _id: { $in: named.map(({ id }) => id) } })
        .sort({ _id: 1 })
        .toArray()
      return { data: documents.map(await viewer(deps, list)) }
    },
  }),
  endpoint({
    method: 'post',
    path,
    operationId: 'createAutoresponder',
    summary: 'Creates an autoresponder',
    tag,
    needs: permission('autoresponder', 'create'),
    body: {
      wrapper: 'autoresponder',
      schema: autoresponderCreation,
      example: {
        autoresponder: {
          name: 'Welcome',
          trigger: 'subscription',
          delay: 'with_delay',
          delay_amount: 1,
          delay_unit: 'days',
          delay_time: 9,
          content_subject: 'Welcome',
          content_text: 'Good to have you.',
        },
      },
    },
    reply: { data: autoresponderView, example: exampleAutoresponder },
    refusals: {
      invalid_request: remoteList,
      validation_failed: 'trigger_autoresponder_to_open_id is required by trigger autoresponder_open',
    },
    async handle({ deps, caller, params, body }) {
      const list = await findList(deps, caller, params['mailing_list_id'])
      const created = await createAutoresponder(deps, list, body())
      return { data: (await viewer(deps, list))(created) }
    },
  }),
  endpoint({
    method: 'put',
    path: `${path}/:id`,
    operationId: 'updateAutoresponder',
    summary: 'Changes the fields that are given; what is queued already keeps its time',
    tag,
    needs: orFor('`paused` alone', mayUpdate, permission('autoresponder', 'update_state')),
    body: {
      wrapper: 'autoresponder',
      schema: autoresponderChange,
      isUpdate: true,
      example: { autoresponder: { paused: true } },
    },
    reply: {
      data: autoresponderView,
      example: { ...exampleAutoresponder, paused: true, paused_at: '2026-02-01T10:00:00+01:00' },
    },
    refusals: {
      invalid_request: remoteList,
      validation_failed:
        "trigger_autoresponder_to_send_id: autoresponders can't trigger each other in a ring, and 7 <- 9 <- 7 would be one",
    },
    async handle({ deps, caller, params, body }) {
      const list = await findList(deps, caller, params['mailing_list_id'])
      const { _id: id } = await findAutoresponder(deps, list, params['id'])
      const given = body()
      if (changesMoreThanState(given)) refuseUnless(caller, mayUpdate)
      const changed = await changeAutoresponder(deps, list, id, given)
      return { data: (await viewer(deps, list))(changed) }
    },
  }),
]

async function findList(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<MailingListDocument> {
  const list = await findMailingList(deps, caller, text)
  refuseRemoteList(list)
  return list
}

const changesMoreThanState = (given: AutoresponderChange): boolean =>
  Object.keys(given).some((key) => key !== 'paused')
