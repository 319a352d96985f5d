import type { Json } from '../service.ts'
import type { Failure, Rows } from './row.ts'
import type { World } from './world.ts'

export async function newAutoresponder(world: World, autoresponder: object = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/autoresponders`, {
    autoresponder: { name: 'Welcome', trigger: 'subscription', ...autoresponder },
  })
}

const paramsOf = (autoresponder: Json) => ({
  mailing_list_id: autoresponder.mailing_list_id,
  id: autoresponder.id,
})

const onRemoteList = async (world: World, body?: unknown): Promise<Failure> => ({
  sent: {
    params: { mailing_list_id: (await world.list({ list: { is_remote_list: true } })).id },
    ...(body === undefined ? {} : { body }),
  },
  code: 'invalid_request',
  message: /Remote List/,
})

const welcome = { autoresponder: { name: 'Welcome', trigger: 'subscription' } }

async function refusedCreation(world: World, autoresponder: object, message: RegExp): Promise<Failure> {
  return {
    sent: {
      params: { mailing_list_id: (await world.list()).id },
      body: { autoresponder: { ...welcome.autoresponder, ...autoresponder } },
    },
    code: 'validation_failed',
    message,
  }
}

export const autoresponderRows: Rows = {
  listAutoresponders: {
    good: async (world) => ({
      params: { mailing_list_id: (await newAutoresponder(world)).mailing_list_id },
      query: '?name=w*&minimal=0',
    }),
    failures: { 'a Remote List': (world) => onRemoteList(world) },
  },
  createAutoresponder: {
    good: async (world) => ({
      params: { mailing_list_id: (await world.list()).id },
      body: {
        autoresponder: {
          name: 'Second',
          trigger: 'autoresponder_nonclick',
          trigger_autoresponder_to_click_id: (await newAutoresponder(world)).id,
          trigger_autoresponder_to_click_urls: ['https://example.com/'],
          delay: 'with_delay',
          delay_unit: 'months',
          delay_amount: 1,
          delay_time: 23,
          content_subject: 'Did you see?',
          content_html: '<p>Here.</p>',
        },
      },
    }),
    failures: {
      'a Remote List': (world) => onRemoteList(world, welcome),
      'a name that is taken, in any case': async (world) => ({
        sent: {
          params: { mailing_list_id: (await newAutoresponder(world)).mailing_list_id },
          body: { autoresponder: { name: 'WELCOME', trigger: 'api' } },
        },
        code: 'validation_failed',
        message: /^name .* is taken/,
      }),
      'a trigger without its target': (world) =>
        refusedCreation(
          world,
          { trigger: 'campaign_open' },
          /^trigger_campaign_to_open_id is required by trigger campaign_open$/,
        ),
      'a click on nothing': (world) =>
        refusedCreation(
          world,
          { trigger: 'campaign_click', trigger_campaign_to_click_id: 5 },
          /^trigger_campaign_to_click_on_any_url must be true, or trigger_campaign_to_click_urls/,
        ),
      'a target of another organization': async (world) =>
        refusedCreation(
          world,
          {
            trigger: 'autoresponder_send',
            trigger_autoresponder_to_send_id: (await newAutoresponder(world.foreign)).id,
          },
          /^trigger_autoresponder_to_send_id: there is no autoresponder/,
        ),
      'content without a subject': (world) =>
        refusedCreation(world, { content_text: 'x' }, /^content_subject is required/),
      'its own delivery without a sender': (world) =>
        refusedCreation(world, { use_external_delivery_setting: false }, /^from_email is required/),
      'a delay without a unit': (world) =>
        refusedCreation(world, { delay: 'with_delay', delay_amount: 1 }, /^delay_unit is required/),
    },
  },
  updateAutoresponder: {
    good: async (world) => ({
      params: paramsOf(await newAutoresponder(world)),
      body: { autoresponder: { name: 'Renamed', paused: true, from_name: null } },
    }),
    failures: {
      'more than `paused` with update_state alone': async (world) => ({
        sent: {
          params: paramsOf(await newAutoresponder(world)),
          body: { autoresponder: { paused: true, track_opens: false } },
          key: await world.holderOf('autoresponder', 'update_state'),
        },
        code: 'not_authorized',
        message: /autoresponder\/update$/,
        status: 403,
      }),
      'a ring': async (world) => {
        const autoresponder = await newAutoresponder(world)
        return {
          sent: {
            params: paramsOf(autoresponder),
            body: {
              autoresponder: {
                trigger: 'autoresponder_send',
                trigger_autoresponder_to_send_id: autoresponder.id,
              },
            },
          },
          code: 'validation_failed',
          message: /^trigger_autoresponder_to_send_id: .* ring/,
        }
      },
    },
  },
}
