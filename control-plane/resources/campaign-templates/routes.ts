import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { mailingListIn } from '../../api/scope.ts'
import { wholeQuery } from '../../api/token-paging.ts'
import { readOnlyFaults } from './read-only.ts'
import {
  contentsTooLarge,
  faultyContents,
  formatIsNull,
  givenTwice,
  isReadOnly,
  nameTaken,
  sqlElsewhere,
  tooManyContents,
  twoRules,
  twoSegments,
  wrongBeginning,
} from './refusals.ts'
import {
  exampleTemplate,
  templateChange,
  templateCreation,
  templateSummaryView,
  templateView,
} from './schemas.ts'
import { changeTemplate, createTemplate, deleteTemplate, listTemplates, templateInPath } from './service.ts'
import { toView } from './view.ts'

const tag = 'Campaign templates'
const listPath = '/mailing_lists/:mailing_list_id/templates'

const exampleSummary = templateSummaryView.parse(exampleTemplate)

const refusedSettings = [
  nameTaken,
  isReadOnly,
  sqlElsewhere,
  twoSegments,
  ...Object.values(faultyContents),
  twoRules,
  wrongBeginning,
]

/** Keys whose values only the schema refuses. */
const faultyKeys = [
  { name: ' ' },
  { contents: [{ subject: 'a\nb' }] },
  { dispatch_attributes: { bounce_email_id: 'x' } },
  { dispatch_attributes: { from_email: 'nobody' } },
  { dispatch_attributes: { from_name: 'a\nb' } },
  { dispatch_attributes: { autowinner_percentage: 12.345 } },
]

export const campaignTemplateEndpoints = [
  endpoint({
    method: 'get',
    path: '/templates',
    operationId: 'listTemplates',
    summary: "The organization's campaign templates, by id, all of them at once up to 8 MB",
    tag,
    needs: 'any_key',
    query: z.object(wholeQuery()),
    reply: { data: z.array(templateSummaryView), paging: 'whole', example: [exampleSummary] },
    handle: (call) => listTemplates(call, { organization_id: call.caller.organizationId }, call.query),
  }),
  endpoint({
    method: 'get',
    path: listPath,
    operationId: 'listTemplatesOfList',
    summary: "The list's campaign templates, by id, all of them at once up to 8 MB",
    tag,
    needs: 'any_key',
    query: z.object(wholeQuery()),
    reply: { data: z.array(templateSummaryView), paging: 'whole', example: [exampleSummary] },
    record: mailingListIn('mailing_list_id'),
    handle: (call) => listTemplates(call, { mailing_list_id: call.record._id }, call.query),
  }),
  endpoint({
    method: 'get',
    path: '/templates/:template_id',
    operationId: 'getTemplate',
    summary: 'One campaign template',
    tag,
    needs: 'any_key',
    reply: { data: templateView, example: exampleTemplate },
    hasLargeReply: true,
    record: templateInPath,
    handle: async ({ deps, record }) => ({ data: await toView(deps, record) }),
  }),
  endpoint({
    method: 'post',
    path: listPath,
    operationId: 'createTemplate',
    summary: 'Creates a campaign template; fields that only replies have are refused',
    tag,
    needs: permission('campaign/template', 'create'),
    body: {
      wrapper: 'campaign',
      schema: templateCreation,
      examples: {
        'a template with one text': {
          campaign: {
            name: 'Monthly news',
            contents: [
              { name: 'Plain', subject: 'News', format: 'text', text: 'What is new' },
              { name: 'Pictures', subject: 'News!', format: 'html', html: '<p>What is new</p>' },
            ],
            dispatch_attributes: { virtual_mta_id: 0, bounce_email_id: '3@7', autowinner_percentage: 25 },
          },
        },
      },
      faulty: faultyKeys,
    },
    reply: { data: templateView, example: exampleTemplate },
    hasLargeReply: true,
    record: mailingListIn('mailing_list_id'),
    refusals: refusedSettings,
    async handle({ deps, record, body, document }) {
      const request = { body, faults: readOnlyFaults(document) }
      return { data: await toView(deps, await createTemplate(deps, record, request)) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/templates/:template_id',
    operationId: 'updateTemplate',
    summary:
      'Changes the fields that are given: contents with an `id` are changed (removed with `_destroy`), those without are added, the others stay',
    tag,
    needs: permission('campaign/template', 'update'),
    body: {
      wrapper: 'campaign',
      schema: templateChange,
      isUpdate: true,
      examples: {
        'one text goes, another gets a new subject': {
          campaign: {
            contents: [
              { id: 9, _destroy: true },
              { id: 10, subject: 'The news' },
            ],
            dispatch_attributes: { speed: 0 },
          },
        },
      },
      faulty: faultyKeys,
    },
    reply: { data: templateView, example: exampleTemplate },
    hasLargeReply: true,
    record: templateInPath,
    refusals: [...refusedSettings, givenTwice, formatIsNull, tooManyContents, contentsTooLarge],
    async handle({ deps, record, body, document }) {
      const request = { body, faults: readOnlyFaults(document) }
      return { data: await toView(deps, await changeTemplate(deps, record, request)) }
    },
  }),
  endpoint({
    method: 'delete',
    path: '/templates/:template_id',
    operationId: 'deleteTemplate',
    summary: 'Deletes a campaign template',
    tag,
    needs: permission('campaign/template', 'delete'),
    reply: { data: z.null(), example: null },
    record: templateInPath,
    async handle({ deps, record }) {
      await deleteTemplate(deps, record)
      return { data: null }
    },
  }),
]
