import { z } from 'zod'
import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList } from '../../api/scope.ts'
import { wholeQuery } from '../../api/token-paging.ts'
import { contentsTooLarge, maxContentBytes, tooManyContents } from './contents.ts'
import { readOnlyFaults } from './read-only.ts'
import {
  exampleTemplate,
  templateChange,
  templateCreation,
  templateSummaryView,
  templateView,
} from './schemas.ts'
import { changeTemplate, createTemplate, findTemplate, listTemplates } from './service.ts'
import { toView } from './view.ts'

const tag = 'Campaign templates'
const listPath = '/mailing_lists/:mailing_list_id/templates'

const exampleSummary = templateSummaryView.parse(exampleTemplate)

const faultySettings = [
  'name must not be blank',
  'name "Monthly news" is taken by another template of the list',
  'organization_id is read-only and must not be sent',
  'dispatch_attributes.state is read-only and must not be sent',
  'segmentation_criteria_remote_sql is possible only on Remote Lists',
  'only one of segmentation_criteria_id and segmentation_criteria_remote_sql may be given',
  "contents can't be given together with content_subject, email_format, content_html, content_text, which are the fields of one content",
  'contents.0.subject must be one line without control characters',
  'contents.0._destroy needs the id of the content to remove',
  'contents.0.id 11 names no content of the template',
  'dispatch_attributes.bounce_email_id must be written as <user_id>@<domain_id>, such as 3@7',
  'only one of dispatch_attributes.special_sending_rule_id and special_sending_rule_name may be given',
  'dispatch_attributes.from_email must be an email address',
  'dispatch_attributes.from_name must be one line without control characters',
  'dispatch_attributes.begins_at must be an ISO 8601 time with `T`, such as 2026-01-31T12:00:00+01:00, in the years 1000 to 9999',
  'dispatch_attributes.autowinner_percentage must be a percentage from 0 to 100 with at most 2 decimals, as a number or as a string',
]

/** The contents, once as a document and once as JSON. */
const largeReplyBytes = 2 * maxContentBytes

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
    handle: (call) => listTemplates(call, { organization_id: call.caller.organizationId }, call.query()),
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
    async handle(call) {
      const list = await findMailingList(call.deps, call.caller, call.params['mailing_list_id'])
      return listTemplates(call, { mailing_list_id: list._id }, call.query())
    },
  }),
  endpoint({
    method: 'get',
    path: '/templates/:template_id',
    operationId: 'getTemplate',
    summary: 'One campaign template',
    tag,
    needs: 'any_key',
    reply: { data: templateView, example: exampleTemplate },
    largeReplyBytes,
    async handle({ deps, caller, params }) {
      return { data: await toView(deps, await findTemplate(deps, caller, params['template_id'])) }
    },
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
      example: {
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
    reply: { data: templateView, example: exampleTemplate },
    largeReplyBytes,
    refusals: { validation_failed: faultySettings },
    async handle({ deps, caller, params, body, documentAsSent }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      const request = { body: body(), faults: readOnlyFaults(documentAsSent()) }
      return { data: await toView(deps, await createTemplate(deps, list, request)) }
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
      example: {
        campaign: {
          contents: [
            { id: 9, _destroy: true },
            { id: 10, subject: 'The news' },
          ],
          dispatch_attributes: { speed: 0 },
        },
      },
    },
    reply: { data: templateView, example: exampleTemplate },
    largeReplyBytes,
    refusals: {
      validation_failed: [
        ...faultySettings,
        'contents.0.id 9 is given twice',
        "contents.0.format can't be null",
        tooManyContents,
        contentsTooLarge,
      ],
    },
    async handle({ deps, caller, params, body, documentAsSent }) {
      const found = await findTemplate(deps, caller, params['template_id'])
      const request = { body: body(), faults: readOnlyFaults(documentAsSent()) }
      return { data: await toView(deps, await changeTemplate(deps, found, request)) }
    },
  }),
]
