import { z } from 'zod'
import { lacksNeed, refuseUnless } from '../../api/authorization.ts'
import { endpoint, orFor, permission } from '../../api/endpoint.ts'
import { localListInPath } from '../../api/scope.ts'
import {
  contentTooLarge,
  faultySettings,
  isTarget,
  isTriggeredByImport,
  nameTaken,
  noSuchTarget,
  wouldBeCycle,
} from './refusals.ts'
import {
  autoresponderChange,
  autoresponderCreation,
  autoresponderQuery,
  autoresponderView,
  exampleAutoresponder,
  minimalAutoresponderView,
  type AutoresponderChange,
} from './schemas.ts'
import {
  autoresponderInPath,
  changeAutoresponder,
  createAutoresponder,
  deleteAutoresponder,
  listAutoresponders,
} from './service.ts'
import { viewer } from './view.ts'

const tag = 'Autoresponders'
const path = '/mailing_lists/:mailing_list_id/autoresponders'
const mayUpdate = permission('autoresponder', 'update')

const refusedSettings = [nameTaken, ...Object.values(faultySettings), noSuchTarget]

/** Keys whose values only the schema refuses. */
const faultyKeys = [
  { name: ' ' },
  { from_email: 'nobody' },
  { reply_to: 'nobody' },
  { from_name: 'a\nb' },
  { content_subject: 'a\nb' },
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
    record: localListInPath,
    handle: (call) => listAutoresponders(call, call.record, call.query),
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
      examples: {
        'a welcome a day after the subscription': {
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
      faulty: faultyKeys,
    },
    reply: { data: autoresponderView, example: exampleAutoresponder },
    record: localListInPath,
    refusals: refusedSettings,
    async handle({ deps, record: list, body }) {
      const created = await createAutoresponder(deps, list, body)
      return { data: (await viewer(deps, list))(created) }
    },
  }),
  endpoint({
    method: 'get',
    path: `${path}/:id`,
    operationId: 'getAutoresponder',
    summary: 'One autoresponder',
    tag,
    needs: 'any_key',
    reply: { data: autoresponderView, example: exampleAutoresponder },
    record: autoresponderInPath,
    handle: async ({ deps, record: { list, autoresponder } }) => ({
      data: (await viewer(deps, list))(autoresponder),
    }),
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
      examples: { 'an autoresponder is paused': { autoresponder: { paused: true } } },
      faulty: faultyKeys,
    },
    reply: {
      data: autoresponderView,
      example: { ...exampleAutoresponder, paused: true, paused_at: '2026-02-01T10:00:00+01:00' },
    },
    record: autoresponderInPath,
    refusals: [...refusedSettings, contentTooLarge, wouldBeCycle, lacksNeed(mayUpdate)],
    async handle({ deps, caller, record: { list, autoresponder }, body }) {
      if (changesMoreThanState(body)) refuseUnless(caller, mayUpdate)
      const changed = await changeAutoresponder(deps, list, autoresponder._id, body)
      return { data: (await viewer(deps, list))(changed) }
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/:id`,
    operationId: 'deleteAutoresponder',
    summary: 'Deletes an autoresponder with its statistics; its queued reactions are dropped',
    tag,
    needs: permission('autoresponder', 'delete'),
    reply: { data: z.null(), example: null },
    record: autoresponderInPath,
    refusals: [isTarget, isTriggeredByImport],
    async handle({ deps, record: { list, autoresponder } }) {
      await deleteAutoresponder(deps, list, autoresponder)
      return { data: null }
    },
  }),
]

const changesMoreThanState = (change: AutoresponderChange): boolean =>
  Object.keys(change).some((key) => key !== 'paused')
