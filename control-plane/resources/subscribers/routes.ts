import type { Request } from 'express'
import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { localListInPath } from '../../api/scope.ts'
import { createSubscriber } from './create/service.ts'
import { deleteSubscribers } from './delete/service.ts'
import { findByEmail } from './find-by-email/service.ts'
import { listSubscribers, namedSubscribers, subscribersInPath } from './find/service.ts'
import {
  deletionDisabled,
  failedWrites,
  faultyValues,
  noConfirmationForm,
  noIpOfVisitor,
  noMailOfToken,
  noneOfThem,
  noSubscriber,
  requiredField,
  requiredFieldUnset,
  subscribersTooLarge,
  tooManyMatches,
  tooManyNames,
} from './refusals.ts'
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
import { subscriberListInPath } from './service.ts'
import {
  faultyKeys,
  faultySections,
  faultyTexts,
  mayNotCreate,
  namesOrIds,
  noAutoresponderNamed,
  noAutoresponderWithId,
  notActive,
  tooManyEntries,
} from './trigger-autoresponders/refusals.ts'
import { exampleTriggered, triggeredView, triggering } from './trigger-autoresponders/schemas.ts'
import { subscriberToTrigger, triggerAutoresponders } from './trigger-autoresponders/service.ts'
import { unsubscribe } from './unsubscribe/service.ts'
import { subscriberInPath, updateSubscriber } from './update/service.ts'

const tag = 'Subscribers'
const mayRead = permission('subscriber', 'read')

const listPath = '/mailing_lists/:mailing_list_id/subscribers'
const subscriberPath = `${listPath}/:id_or_email`

/**
 * A small page costs little more than a record, and many at once share their reads. One with a number above 0 reads the
 * records before it too; one that follows a token doesn't.
 */
function slotOfPage({ query: { page, per_page: perPage } }: Pick<Request, 'query'>): 'requests' | 'pages' {
  const isSmall = (Number(perPage ?? 0) || pageSizes.perPage) <= maxSmallPage
  return isSmall && Number(page ?? 0) === 0 ? 'requests' : 'pages'
}
const maxSmallPage = 128

/** What the four searches for an email have in common. */
const search = {
  method: 'get',
  tag,
  needs: mayRead,
  query: subscriberPage,
  slot: slotOfPage,
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
    slot: slotOfPage,
    reply: { data: z.array(subscriberView), paging: 'pages', example: [exampleSubscriber] },
    record: subscriberListInPath,
    handle: (call) => listSubscribers(call, call.record, call.query),
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
    slot: ({ path }) => (/(?:,|%2c)[^/]*\/?$/i.test(path) ? 'costly' : 'requests'),
    reply: { data: z.array(subscriberView), example: [exampleSubscriber] },
    record: subscribersInPath,
    refusals: [noSubscriber, noneOfThem, tooManyNames, tooManyMatches, subscribersTooLarge],
    handle: async (call) => ({ data: await namedSubscribers(call, call.record, call.lastSegment) }),
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
      examples: {
        'an address with a first name': {
          subscriber: {
            email: 'ann@example.com',
            subscribe_ip: '192.0.2.7',
            custom_fields: { 'First name': 'Ann' },
          },
        },
      },
    },
    reply: { data: subscriberView.nullable(), example: exampleSubscriber },
    record: subscriberListInPath,
    refusals: [noConfirmationForm, ...faultyValues, requiredField, ...failedWrites],
    handle: async (call) => ({ data: await createSubscriber(call) }),
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
      examples: {
        'a subscriber leaves, and a value is cleared': {
          subscriber: { status: 'unsubscribed', custom_fields: { Plan: null } },
        },
      },
    },
    reply: { data: subscriberView, example: exampleSubscriber },
    record: subscriberInPath,
    refusals: [...faultyValues, requiredFieldUnset, ...failedWrites],
    handle: async (call) => ({ data: await updateSubscriber(call) }),
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
      examples: {
        'an order triggers mails, also for a new address': {
          autoresponder_names: ['Order *'],
          create_missing_subscriber: true,
          content_replacement_fields: { order_number: '4711' },
          custom_fields: { for_all: { Plan: 'Gold' }, for_new: { 'First name': 'Ann' } },
        },
      },
    },
    reply: { data: triggeredView, example: exampleTriggered },
    record: subscriberToTrigger,
    refusals: [
      mayNotCreate,
      namesOrIds,
      tooManyEntries,
      noAutoresponderNamed,
      noAutoresponderWithId,
      notActive,
      ...Object.values(faultyKeys),
      ...Object.values(faultyTexts),
      ...Object.values(faultySections.for_all),
      requiredField,
      requiredFieldUnset,
      ...failedWrites,
    ],
    handle: async (call) => ({ data: await triggerAutoresponders(call) }),
  }),
  endpoint({
    method: 'delete',
    path: subscriberPath,
    operationId: 'deleteSubscriber',
    summary: 'Deletes the subscriber with an id, or up to 10 of those with an email, lowest id first',
    tag,
    needs: permission('subscriber', 'delete'),
    reply: { data: removalView, example: { subscriber_ids_removed: [9001], more_remaining: false } },
    record: subscriberListInPath,
    refusals: [noSubscriber, deletionDisabled],
    handle: async ({ deps, record, params: { id_or_email: text = '' } }) => ({
      data: await deleteSubscribers(deps, record, text),
    }),
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
      examples: {
        'the token of an unsubscribe link': {
          unsubscribe: { token: 'MTI6OTAwMTo1NQ.9bUqv0hG0q3mYx2c4rYvMw', ip: '192.0.2.7' },
        },
      },
    },
    reply: { data: subscriberView, example: { ...exampleSubscriber, status: 'unsubscribed' as const } },
    refusals: [noMailOfToken, noIpOfVisitor],
    handle: async ({ deps, caller, body }) => ({ data: await unsubscribe(deps, caller, body) }),
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
    record: localListInPath,
    handle: (call) => findByEmail(call, { _id: call.record._id }, { lists: [call.record] }),
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
