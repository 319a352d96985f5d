import type { Json } from '../service.ts'
import type { Failure, Rows } from './row.ts'
import type { World } from './world.ts'

async function newTemplate(world: World, campaign: object = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/templates`, {
    campaign: { name: 'News', contents: [{ subject: 'News', text: 'New' }], ...campaign },
  })
}

async function refusedCreation(world: World, campaign: object, message: RegExp): Promise<Failure> {
  return {
    sent: {
      params: { mailing_list_id: (await world.list()).id },
      body: { campaign: { name: 'News', ...campaign } },
    },
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
      'a read-only field': (world) =>
        refusedCreation(world, { organization_id: world.organizationId }, /^organization_id is read-only/),
      'a state of its delivery': (world) =>
        refusedCreation(
          world,
          { dispatch_attributes: { state: 'sending' } },
          /^dispatch_attributes.state is read-only/,
        ),
      'SQL on a list that is none of a remote database': (world) =>
        refusedCreation(
          world,
          { segmentation_criteria_remote_sql: 'SELECT 1' },
          /^segmentation_criteria_remote_sql .* Remote Lists$/,
        ),
      'contents and one content': (world) =>
        refusedCreation(world, { contents: [], content_subject: 'x' }, /^contents can't be given together/),
      'a percentage with three decimals': (world) =>
        refusedCreation(
          world,
          { dispatch_attributes: { autowinner_percentage: 12.345 } },
          /^dispatch_attributes.autowinner_percentage .* 2 decimals/,
        ),
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
      'a content of another template': async (world) => ({
        sent: {
          params: { template_id: (await newTemplate(world)).id },
          body: { campaign: { contents: [{ id: (await newTemplate(world)).contents[0].id, name: 'x' }] } },
        },
        code: 'validation_failed',
        message: /^contents.0.id .* names no content/,
      }),
      'a read-only field, null too': async (world) => ({
        sent: { params: { template_id: (await newTemplate(world)).id }, body: { campaign: { id: null } } },
        code: 'validation_failed',
        message: /^id is read-only/,
      }),
    },
  },
}
