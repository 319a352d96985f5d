import { z } from 'zod'
import { valuesTooLarge } from '../../../shared/store/value-bytes.ts'
import { describeNeed } from '../../api/authorization.ts'
import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { maxPageWeight, pageWeight } from '../../api/request-slots.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
import { createSubscriber } from './create/service.ts'
import { deleteSubscribers } from './delete/service.ts'
import { findByEmail } from './find-by-email/service.ts'
import { listSubscribers, namedSubscribers, subscribersTooLarge } from './find/service.ts'
import {
  exampleFound,
  exampleSubscriber,
  foundSubscriberView,
  pageSizes,
  removalView,
  subscriberCreation,
  subscriberPage,
  subscriberUpdate,
  subscriberView,
  unsubscription,
} from './schemas.ts'
import { findSubscriberList, quotaRefusals, severalSubscribers, identityExists } from './service.ts'
import {
  exampleTriggered,
  triggeredView,
  triggering,
  triggeringRefusals,
} from './trigger-autoresponders/schemas.ts'
import { needOfCreation, triggerAutoresponders } from './trigger-autoresponders/service.ts'
import { unsubscribe } from './unsubscribe/service.ts'
import { updateSubscriber } from './update/service.ts'

const tag = 'Subscribers'
const mayRead = permission('subscriber', 'read')

const listPath = '/mailing_lists/:mailing_list_id/subscribers'
const subscriberPath = `${listPath}/:id_or_email`

const noSubscriber = 'there is no subscriber 4711'
const faultyTokens = [
  'page_token must not be given together with page',
  'page_token is not one that this list gave out',
]
const faultyValues = [
  'email must be an email address',
  'subscribe_time must be a time in ISO 8601 with T, such as 2026-11-21T09:00:00Z, in the years 1000 to 9999',
  'subscribe_ip must be an IPv4 or IPv6 address',
  'custom_fields.Nothing is no custom field of the list',
  'custom_fields.Plan is given twice',
  'custom_fields.Plan must be an integer',
]

function subscriberInPath(params: Readonly<Record<string, string>>) {
  const { mailing_list_id: listText, id_or_email: subscriberText = '' } = params
  return { listText, subscriberText }
}

/** A page with a number above 0 reads the records before it too. One that follows a token doesn't. */
function weightOfPage({ page, per_page: perPage }: Record<string, unknown>): number {
  return Number(page ?? 0) === 0 ? pageWeight(Number(perPage ?? 0) || pageSizes.perPage) : maxPageWeight
}

/** What the four searches for an email have in common. */
const search = {
  method: 'get',
  tag,
  needs: mayRead,
  query: subscriberPage,
  weight: weightOfPage,
  refusals: { invalid_request: faultyTokens },
} as const
const foundOnPages = { data: z.array(foundSubscriberView), paging: 'pages' } as const
const exampleFoundElsewhere = { ...exampleFound, organization: { id: 2, name: 'Example Ltd' } }

export const subscriberEndpoints = [
  endpoint({
    method: 'get',
    path: listPath,
    operationId: 'listSubscribers',
    summary: "The list's subscribers, by id",
    tag,
    needs: mayRead,
    query: subscriberPage,
    weight: weightOfPage,
    reply: { data: z.array(subscriberView), paging: 'pages', example: [exampleSubscriber] },
    refusals: { invalid_request: [remoteListRefusal, ...faultyTokens] },
    async handle(call) {
      const context = await findSubscriberList(call.deps, call.caller, call.params['mailing_list_id'])
      return listSubscribers(call, context, call.query())
    },
  }),
  endpoint({
    method: 'get',
    path: subscriberPath,
    operationId: 'getSubscribers',
    summary:
      'The subscribers with up to 100 comma-separated ids or emails, in that order, each once; those that the list does not have are left out, where it has any of them',
    tag,
    needs: mayRead,
    // Several subscribers are costly: all their values come too.
    isCostly: (lastSegment) => /,|%2c/i.test(lastSegment),
    reply: { data: z.array(subscriberView), example: [exampleSubscriber] },
    refusals: {
      invalid_request: remoteListRefusal,
      not_found: [noSubscriber, 'the list has none of the 2 subscribers that are asked for'],
      requested_too_many: [
        '101 subscribers are asked for, and 100 are possible at once',
        'more than 500 subscribers have what is asked for, and 500 are possible at once: go through them by pages of /svc/api/v2/mailing_lists/12/subscribers_by_email/:email',
        subscribersTooLarge,
      ],
    },
    async handle(call) {
      const context = await findSubscriberList(call.deps, call.caller, call.params['mailing_list_id'])
      return { data: await namedSubscribers(call, context, call.lastSegment) }
    },
  }),
  endpoint({
    method: 'post',
    path: listPath,
    operationId: 'createSubscriber',
    summary: 'Adds a subscriber, or with `confirmation_form_id` asks it to confirm first',
    tag,
    needs: permission('subscriber', 'create'),
    body: {
      wrapper: 'subscriber',
      schema: subscriberCreation,
      beside: ['confirmation_form_id', 'apply_custom_field_defaults'],
      example: {
        subscriber: {
          email: 'ann@example.com',
          subscribe_ip: '192.0.2.7',
          custom_fields: { 'First name': 'Ann' },
        },
      },
    },
    reply: { data: subscriberView.nullable(), example: exampleSubscriber },
    refusals: {
      invalid_request: remoteListRefusal,
      not_found: 'there is no confirmation form 3',
      validation_failed: [
        ...faultyValues,
        'custom_fields.Plan is required',
        valuesTooLarge,
        identityExists,
        ...Object.values(quotaRefusals),
      ],
    },
    async handle({ deps, caller, params, body }) {
      return { data: await createSubscriber(deps, caller, params['mailing_list_id'], body) }
    },
  }),
  endpoint({
    method: 'put',
    path: subscriberPath,
    operationId: 'updateSubscriber',
    summary: 'Changes those values of a subscriber that the body has. Its id stays, with another email too',
    tag,
    needs: permission('subscriber', 'update'),
    body: {
      wrapper: 'subscriber',
      schema: subscriberUpdate,
      beside: ['run_autoresponders'],
      isUpdate: true,
      example: { subscriber: { status: 'unsubscribed', custom_fields: { Plan: null } } },
    },
    reply: { data: subscriberView, example: exampleSubscriber },
    refusals: {
      invalid_request: remoteListRefusal,
      not_found: noSubscriber,
      multiple_records_found: severalSubscribers('ann@example.com'),
      validation_failed: [
        ...faultyValues,
        "custom_fields.Plan is required and can't be unset",
        valuesTooLarge,
        identityExists,
        ...Object.values(quotaRefusals),
      ],
    },
    async handle({ deps, caller, params, body }) {
      return { data: await updateSubscriber(deps, caller, subscriberInPath(params), body) }
    },
  }),
  endpoint({
    method: 'post',
    path: `${subscriberPath}/trigger_autoresponders`,
    operationId: 'triggerAutoresponders',
    summary:
      'Queues a mail of each named autoresponder for one subscriber, which can be created or reactivated for it',
    tag,
    needs: permission('subscriber', 'update'),
    body: {
      wrapper: null,
      schema: triggering,
      isUpdate: true,
      example: {
        autoresponder_names: ['Order *'],
        create_missing_subscriber: true,
        content_replacement_fields: { order_number: '4711' },
        custom_fields: { for_all: { Plan: 'Gold' }, for_new: { 'First name': 'Ann' } },
      },
    },
    reply: { data: triggeredView, example: exampleTriggered },
    refusals: {
      invalid_request: [remoteListRefusal, ...triggeringRefusals.invalid_request],
      not_found: [noSubscriber, ...triggeringRefusals.not_found],
      multiple_records_found: severalSubscribers('ann@example.com'),
      requested_too_many: '101 autoresponders are asked for, and 100 entries are possible at once',
      validation_failed: [
        ...triggeringRefusals.validation_failed,
        valuesTooLarge,
        identityExists,
        ...Object.values(quotaRefusals),
      ],
    },
    forbids: [`this needs ${describeNeed(needOfCreation)}`],
    async handle({ deps, caller, params, body, documentAsSent }) {
      const path = subscriberInPath(params)
      return { data: await triggerAutoresponders(deps, caller, path, { parseBody: body, documentAsSent }) }
    },
  }),
  endpoint({
    method: 'delete',
    path: subscriberPath,
    operationId: 'deleteSubscriber',
    summary: 'Deletes the subscriber with an id, or up to 10 of those with an email, lowest id first',
    tag,
    needs: permission('subscriber', 'delete'),
    reply: { data: removalView, example: { subscriber_ids_removed: [9001], more_remaining: false } },
    refusals: {
      invalid_request: remoteListRefusal,
      not_found: noSubscriber,
      validation_failed:
        "subscriber 9001 can't be deleted: the directive disable_subscriber_deletion is enabled",
    },
    async handle({ deps, caller, params }) {
      const context = await findSubscriberList(deps, caller, params['mailing_list_id'])
      return { data: await deleteSubscribers(deps, context, subscriberInPath(params).subscriberText) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/subscribers/unsubscribe',
    operationId: 'unsubscribe',
    summary: 'Unsubscribes the subscriber that a mail with this token was sent to',
    tag,
    needs: permission('subscriber', 'update'),
    scope: 'record',
    body: {
      wrapper: 'unsubscribe',
      schema: unsubscription,
      beside: ['token', 'ip'],
      isWrapperOptional: true,
      example: { unsubscribe: { token: 'MTI6OTAwMTo1NQ.9bUqv0hG0q3mYx2c4rYvMw', ip: '192.0.2.7' } },
    },
    reply: { data: subscriberView, example: { ...exampleSubscriber, status: 'unsubscribed' as const } },
    refusals: {
      not_found: 'there is no mail with this unsubscribe token',
      validation_failed: 'ip must be an IPv4 or IPv6 address',
    },
    async handle({ deps, caller, body }) {
      return { data: await unsubscribe(deps, caller, body()) }
    },
  }),
  endpoint({
    ...search,
    path: '/subscribers_by_email/:email',
    operationId: 'findSubscribersByEmail',
    summary: "An email on all lists of the caller's organization",
    scope: 'own_organization',
    reply: { ...foundOnPages, example: [exampleFound] },
    handle: (call) => findByEmail(call, { organization_id: call.caller.organizationId }),
  }),
  endpoint({
    ...search,
    path: '/mailing_lists/:mailing_list_id/subscribers_by_email/:email',
    operationId: 'findSubscribersByEmailInList',
    summary: 'An email on one list',
    reply: { ...foundOnPages, example: [exampleFound] },
    refusals: { invalid_request: [remoteListRefusal, ...faultyTokens] },
    async handle(call) {
      const list = await findMailingList(call.deps, call.caller, call.params['mailing_list_id'])
      refuseRemoteList(list)
      return findByEmail(call, { _id: list._id })
    },
  }),
  endpoint({
    ...search,
    path: '/organizations/all/subscribers_by_email/:email',
    operationId: 'findSubscribersByEmailEverywhere',
    summary: 'An email on all lists of all organizations',
    needs: 'system_admin',
    reply: { ...foundOnPages, example: [exampleFoundElsewhere] },
    handle: (call) => findByEmail(call, {}, { withOrganizations: true }),
  }),
  endpoint({
    ...search,
    path: '/organizations/:organization_id/subscribers_by_email/:email',
    operationId: 'findSubscribersByEmailInOrganization',
    summary: 'An email on all lists of an organization',
    reply: { ...foundOnPages, example: [exampleFoundElsewhere] },
    handle: (call) =>
      findByEmail(call, { organization_id: call.organizationId }, { withOrganizations: true }),
  }),
]
