import type { RequestError } from '../../../control-plane/api/request-error.ts'
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
} from '../../../control-plane/resources/campaign-templates/refusals.ts'
import type { Json } from '../service.ts'
import type { Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'

async function newTemplate(world: World, campaign: object = {}, list: object = {}): Promise<Json> {
  const { id } = await world.list({ list: { ...list } })
  return world.post(`/mailing_lists/${id}/templates`, {
    campaign: { name: 'News', contents: [{ subject: 'News', text: 'New' }], ...campaign },
  })
}

/** Fields that creations and changes refuse, on an ordinary list or another one. */
const faulty: [fields: Record<string, unknown>, refused: RequestError, list?: object][] = [
  [{ organization_id: 2 }, isReadOnly('organization_id')],
  [{ organization_id: null }, isReadOnly('organization_id')],
  [{ segmentation_criteria_remote_sql: 'SELECT 1' }, sqlElsewhere()],
  [
    { segmentation_criteria_id: 5, segmentation_criteria_remote_sql: 'SELECT 1' },
    twoSegments(),
    { is_remote_list: true },
  ],
  [{ contents: [], content_subject: 'x' }, faultyContents.contentsAndOne()],
  [{ contents: [{ _destroy: true }] }, faultyContents.removalWithoutId(0)],
  [{ contents: [{ id: 999_999 }] }, faultyContents.noSuchContent(0, 999_999)],
  [{ dispatch_attributes: { special_sending_rule_id: 1, special_sending_rule_name: 'x' } }, twoRules()],
  [{ dispatch_attributes: { begins_at: '2026-01-31' } }, wrongBeginning()],
]

const faultyRequests = (
  requestWith: (world: World, fields: Record<string, unknown>, list?: object) => Promise<Sent>,
): NonNullable<Row['refusals']> =>
  faulty.map(([fields, refused, list]) => async (world) => ({
    sent: await requestWith(world, fields, list),
    refused,
  }))

const refusedContents =
  (
    contentsFor: (id: number) => Record<string, unknown>[],
    refusedFor: (id: number) => RequestError,
    template?: object,
  ): NonNullable<Row['refusals']>[number] =>
  async (world) => {
    const made = await newTemplate(world, template)
    const { id } = made.contents[0]
    return {
      sent: { params: { template_id: made.id }, body: { campaign: { contents: contentsFor(id) } } },
      refused: refusedFor(id),
    }
  }

const dispatch_attributes = {
  virtual_mta_id: 0,
  bounce_email_id: '3@7',
  speed: 100,
  from_email: 'news@example.com',
  begins_at: '2026-01-31T12:00',
  autowinner_percentage: '12.5',
}

export const campaignTemplateRows: Rows = {
  listTemplates: { good: () => ({}) },
  listTemplatesOfList: {
    good: async (world) => ({ params: { mailing_list_id: (await newTemplate(world)).mailing_list_id } }),
  },
  getTemplate: { good: async (world) => ({ params: { template_id: (await newTemplate(world)).id } }) },
  deleteTemplate: { good: async (world) => ({ params: { template_id: (await newTemplate(world)).id } }) },
  createTemplate: {
    good: async (world) => ({
      params: { mailing_list_id: (await world.list({ list: { is_remote_list: true } })).id },
      body: {
        campaign: {
          name: 'News',
          segmentation_criteria_remote_sql: 'SELECT 1',
          contents: [{ name: 'One', subject: 'News', format: 'html', html: '<p>New</p>' }],
          dispatch_attributes,
        },
      },
    }),
    refusals: [
      ...faultyRequests(async (world, fields, list = {}) => ({
        params: { mailing_list_id: (await world.list({ list: { ...list } })).id },
        body: { campaign: { name: 'News', ...fields } },
      })),
      async (world) => ({
        sent: {
          params: { mailing_list_id: (await newTemplate(world)).mailing_list_id },
          body: { campaign: { name: 'NEWS' } },
        },
        refused: nameTaken('NEWS'),
      }),
    ],
  },
  updateTemplate: {
    good: async (world) => {
      const template = await newTemplate(world)
      return {
        params: { template_id: template.id },
        body: {
          campaign: {
            contents: [{ id: template.contents[0].id, subject: null }, { name: 'Second' }],
            dispatch_attributes,
          },
        },
      }
    },
    refusals: [
      ...faultyRequests(async (world, fields, list) => ({
        params: { template_id: (await newTemplate(world, {}, list)).id },
        body: { campaign: fields },
      })),
      async (world) => {
        const { mailing_list_id } = await newTemplate(world)
        const other = await world.post(`/mailing_lists/${mailing_list_id}/templates`, {
          campaign: { name: 'Other' },
        })
        return {
          sent: { params: { template_id: other.id }, body: { campaign: { name: 'NEWS' } } },
          refused: nameTaken('NEWS'),
        }
      },
      // A content of another template.
      async (world) => {
        const { id } = (await newTemplate(world)).contents[0]
        const refused = faultyContents.noSuchContent(0, id)
        return refusedContents(
          () => [{ id, name: 'x' }],
          () => refused,
        )(world)
      },
      refusedContents(
        (id) => [{ id }, { id }],
        (id) => givenTwice(1, id),
      ),
      refusedContents(
        (id) => [{ id, format: null }],
        () => formatIsNull(0),
      ),
      refusedContents(
        () => [{}],
        () => tooManyContents(),
        { contents: Array.from({ length: 100 }, () => ({})) },
      ),
      async (world) => {
        const { id } = await newTemplate(world)
        await world.service.collections.campaignTemplates.updateOne(
          { _id: id },
          { $set: { 'contents.0.html': 'x'.repeat(8_000_000) } },
        )
        return {
          sent: { params: { template_id: id }, body: { campaign: { contents: [{ text: 'x' }] } } },
          refused: contentsTooLarge(),
        }
      },
    ],
  },
}
