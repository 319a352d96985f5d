import { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { describeNeed, refuseUnless } from '../../api/authorization.ts'
import { oldEndpoint as endpoint, orFor, permission } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { contentTooLarge } from './rules.ts'
import {
  autoresponderChange,
  autoresponderCreation,
  autoresponderQuery,
  autoresponderView,
  exampleAutoresponder,
  minimalAutoresponderView,
  type AutoresponderChange,
} from './schemas.ts'
import { changeAutoresponder, createAutoresponder, findAutoresponder, listAutoresponders } from './service.ts'
import { viewer } from './view.ts'

const tag = 'Autoresponders'
const path = '/mailing_lists/:mailing_list_id/autoresponders'
const mayUpdate = permission('autoresponder', 'update')

const faultySettings = [
  'name must not be blank',
  'name "Welcome" is taken by another autoresponder of the list',
  'from_email must be an email address',
  'from_email is required when use_external_delivery_setting is false',
  'reply_to must be an email address',
  'from_name must be one line without control characters',
  'content_subject must be one line without control characters',
  'content_subject is required with content_html or content_text',
  'delay_amount must be 0 while delay is immediately',
  'delay_time must be 0 while delay is immediately',
  'delay_unit must be null while delay is immediately',
  'delay_unit is required while delay is with_delay',
  'delay_amount must be at least 1 while delay is with_delay',
  'delay_amount must be at most 36500 days',
  'delay_time must be 0 with a delay in minutes',
  'delay must be with_delay for trigger autoresponder_nonopen, because it fires when no open came within the delay',
  'trigger_campaign_to_open_id is required by trigger campaign_open',
  'trigger_campaign_to_click_on_any_url must be true, or trigger_campaign_to_click_urls must list URLs, for trigger campaign_click',
  'trigger_autoresponder_to_send_id: there is no autoresponder 4711 in the organization',
]

export const autoresponderEndpoints = [
  endpoint({
    method: 'get',
    path,
    operationId: 'listAutoresponders',
    summary: "The list's autoresponders, by id, all of them at once up to 8 MB",
    tag,
    needs: 'any_key',
    query: autoresponderQuery,
    reply: {
      data: z.array(z.union([autoresponderView, minimalAutoresponderView])),
      paging: 'whole',
      example: [exampleAutoresponder],
    },
    refusals: { invalid_request: remoteListRefusal },
    async handle(call) {
      const list = await findList(call.deps, call.caller, call.params['mailing_list_id'])
      return listAutoresponders(call, list, call.query())
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
    refusals: { invalid_request: remoteListRefusal, validation_failed: faultySettings },
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
    summary: 'Changes the fields that are given; reactions that are queued already keep their time',
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
      invalid_request: remoteListRefusal,
      not_found: 'there is no autoresponder 4711',
      validation_failed: [
        ...faultySettings,
        contentTooLarge,
        "trigger_autoresponder_to_send_id: autoresponders can't trigger each other in a cycle, and 7 <- 9 <- 7 would be one",
      ],
    },
    forbids: [`this needs ${describeNeed(mayUpdate)}`],
    async handle({ deps, caller, params, body }) {
      const list = await findList(deps, caller, params['mailing_list_id'])
      const { _id: id } = await findAutoresponder(deps, list, params['id'])
      const change = body()
      if (changesMoreThanState(change)) refuseUnless(caller, mayUpdate)
      const changed = await changeAutoresponder(deps, list, id, change)
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

const changesMoreThanState = (change: AutoresponderChange): boolean =>
  Object.keys(change).some((key) => key !== 'paused')
