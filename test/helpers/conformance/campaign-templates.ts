import type { Json } from '../service.ts'
import type { Failure, MakeFailure, Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'

async function newTemplate(world: World, campaign: object = {}, list: object = {}): Promise<Json> {
  const { id } = await world.list({ list: { ...list } })
  return world.post(`/mailing_lists/${id}/templates`, {
    campaign: { name: 'News', contents: [{ subject: 'News', text: 'New' }], ...campaign },
  })
}

/** Fields that creations and changes refuse. */
const faulty: Record<string, [fields: Record<string, unknown>, message: RegExp]> = {
  'a blank name': [{ name: ' ' }, /^name must not be blank$/],
  'a read-only field': [{ organization_id: 2 }, /^organization_id is read-only/],
  'a state of its delivery': [
    { dispatch_attributes: { state: 'sending' } },
    /^dispatch_attributes.state is read-only/,
  ],
  'SQL on a list that is none of a remote database': [
    { segmentation_criteria_remote_sql: 'SELECT 1' },
    /^segmentation_criteria_remote_sql .* Remote Lists$/,
  ],
  'contents and one content': [{ contents: [], content_subject: 'x' }, /^contents can't be given together/],
  'a subject of two lines': [{ contents: [{ subject: 'a\nb' }] }, /^contents.0.subject must be one line/],
  'the removal of nothing': [{ contents: [{ _destroy: true }] }, /^contents.0._destroy needs/],
  'a content that is not there': [{ contents: [{ id: 999_999 }] }, /^contents.0.id .* names no content/],
  'a bounce address in another form': [
    { dispatch_attributes: { bounce_email_id: 'x' } },
    /^dispatch_attributes.bounce_email_id must be written/,
  ],
  'a rule by its id and its name': [
    { dispatch_attributes: { special_sending_rule_id: 1, special_sending_rule_name: 'x' } },
    /^only one of dispatch_attributes\.special_sending_rule_id/,
  ],
  'a sender who is none': [
    { dispatch_attributes: { from_email: 'nobody' } },
    /^dispatch_attributes.from_email must be/,
  ],
  'a sender of two lines': [
    { dispatch_attributes: { from_name: 'a\nb' } },
    /^dispatch_attributes.from_name must be one line/,
  ],
  'a beginning without a time': [
    { dispatch_attributes: { begins_at: '2026-01-31' } },
    /^dispatch_attributes.begins_at must be/,
  ],
  'a percentage with three decimals': [
    { dispatch_attributes: { autowinner_percentage: 12.345 } },
    /^dispatch_attributes.autowinner_percentage .* 2 decimals/,
  ],
}

type RequestWith = (world: World, fields: Record<string, unknown>, list?: object) => Promise<Sent>

const faults = (requestWith: RequestWith): NonNullable<Row['failures']> => ({
  ...Object.fromEntries(
    Object.entries(faulty).map(([title, [fields, message]]) => [
      title,
      async (world: World): Promise<Failure> => ({
        sent: await requestWith(world, fields),
        code: 'validation_failed',
        message,
      }),
    ]),
  ),
  'a segment by its id and by SQL': async (world) => ({
    sent: await requestWith(
      world,
      { segmentation_criteria_id: 5, segmentation_criteria_remote_sql: 'SELECT 1' },
      { is_remote_list: true },
    ),
    code: 'validation_failed',
    message: /^only one of segmentation_criteria_id and segmentation_criteria_remote_sql/,
  }),
})

const refusedChange =
  (fieldsFor: (template: Json) => Record<string, unknown>, message: RegExp, template?: object): MakeFailure =>
  async (world) => {
    const made = await newTemplate(world, template)
    return {
      sent: { params: { template_id: made.id }, body: { campaign: fieldsFor(made) } },
      code: 'validation_failed',
      message,
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
    failures: {
      ...faults(async (world, fields, list = {}) => ({
        params: { mailing_list_id: (await world.list({ list: { ...list } })).id },
        body: { campaign: { name: 'News', ...fields } },
      })),
      'a name that is taken, in any case': async (world) => ({
        sent: {
          params: { mailing_list_id: (await newTemplate(world)).mailing_list_id },
          body: { campaign: { name: 'NEWS' } },
        },
        code: 'validation_failed',
        message: /^name .* is taken/,
      }),
    },
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
    failures: {
      ...faults(async (world, fields, list) => ({
        params: { template_id: (await newTemplate(world, {}, list)).id },
        body: { campaign: fields },
      })),
      'a name that is taken, in any case': async (world) => {
        const { mailing_list_id } = await newTemplate(world)
        const other = await world.post(`/mailing_lists/${mailing_list_id}/templates`, {
          campaign: { name: 'Other' },
        })
        return {
          sent: { params: { template_id: other.id }, body: { campaign: { name: 'NEWS' } } },
          code: 'validation_failed',
          message: /^name .* is taken/,
        }
      },
      'a content of another template': async (world) => {
        const { contents } = await newTemplate(world)
        return refusedChange(
          () => ({ contents: [{ id: contents[0].id, name: 'x' }] }),
          /^contents.0.id .* names no content/,
        )(world)
      },
      'a content that is given twice': refusedChange(
        ({ contents: [{ id }] }) => ({ contents: [{ id }, { id }] }),
        /^contents.1.id .* is given twice$/,
      ),
      'a content without a format': refusedChange(
        ({ contents: [{ id }] }) => ({ contents: [{ id, format: null }] }),
        /^contents.0.format can't be null$/,
      ),
      'a read-only field, null too': refusedChange(
        () => ({ organization_id: null }),
        /^organization_id is read-only/,
      ),
      'one content more than 100': refusedChange(
        () => ({ contents: [{}] }),
        /^contents must have at most 100 entries in all$/,
        { contents: Array.from({ length: 100 }, () => ({})) },
      ),
      'more than 8 MB': async (world) => {
        const { id } = await newTemplate(world)
        await world.service.collections.campaignTemplates.updateOne(
          { _id: id },
          { $set: { 'contents.0.html': 'x'.repeat(8_000_000) } },
        )
        return {
          sent: { params: { template_id: id }, body: { campaign: { contents: [{ text: 'x' }] } } },
          code: 'validation_failed',
          message: /^contents must have at most 8000000 bytes in all$/,
        }
      },
    },
  },
}
