import type { Json } from '../service.ts'
import type { Failure, MakeFailure, Row, Rows, Sent } from './row.ts'
import type { World } from './world.ts'

async function newAutoresponder(world: World, autoresponder: object = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/autoresponders`, {
    autoresponder: { name: 'Welcome', trigger: 'subscription', ...autoresponder },
  })
}

const paramsOf = (autoresponder: Json) => ({
  mailing_list_id: autoresponder.mailing_list_id,
  id: autoresponder.id,
})

const onRemoteList = async ({ list }: World, more: Sent = {}): Promise<Failure> => ({
  sent: {
    ...more,
    params: { ...more.params, mailing_list_id: (await list({ list: { is_remote_list: true } })).id },
  },
  code: 'invalid_request',
  message: /Remote List/,
})

const welcome = { name: 'Welcome', trigger: 'subscription' }

/** Fields that creations and changes refuse. */
const faulty: Record<string, [fields: Record<string, unknown>, message: RegExp]> = {
  'a blank name': [{ name: ' ' }, /^name must not be blank$/],
  'a sender who is none': [{ from_email: 'nobody' }, /^from_email must be/],
  'answers to nobody': [{ reply_to: 'nobody' }, /^reply_to must be/],
  'a name of two lines': [{ from_name: 'a\nb' }, /^from_name must be one line/],
  'a subject of two lines': [{ content_text: 'x', content_subject: 'a\nb' }, /^content_subject must be one/],
  'content without a subject': [{ content_text: 'x' }, /^content_subject is required/],
  'its own delivery without a sender': [{ use_external_delivery_setting: false }, /^from_email is required/],
  'an amount without a delay': [{ delay_amount: 1 }, /^delay_amount must be 0/],
  'an hour without a delay': [{ delay_time: 1 }, /^delay_time must be 0 while/],
  'a unit without a delay': [{ delay_unit: 'days' }, /^delay_unit must be null/],
  'a delay without a unit': [{ delay: 'with_delay', delay_amount: 1 }, /^delay_unit is required/],
  'a delay of nothing': [{ delay: 'with_delay', delay_unit: 'days' }, /^delay_amount must be at least 1/],
  'a delay of more than a century': [
    { delay: 'with_delay', delay_unit: 'days', delay_amount: 36_501 },
    /^delay_amount must be at most 36500 days$/,
  ],
  'an hour of a delay in minutes': [
    { delay: 'with_delay', delay_unit: 'minutes', delay_amount: 1, delay_time: 9 },
    /^delay_time must be 0 with a delay in minutes$/,
  ],
  'a trigger without its target': [
    { trigger: 'campaign_open' },
    /^trigger_campaign_to_open_id is required by trigger campaign_open$/,
  ],
  'a click on nothing': [
    { trigger: 'campaign_click', trigger_campaign_to_click_id: 5 },
    /^trigger_campaign_to_click_on_any_url must be true, or trigger_campaign_to_click_urls/,
  ],
}

type RequestWith = (world: World, fields: Record<string, unknown>) => Promise<Sent>

function faults(requestWith: RequestWith): NonNullable<Row['failures']> {
  const refused =
    (fields: (world: World) => Promise<Record<string, unknown>>, message: RegExp): MakeFailure =>
    async (world) => ({
      sent: await requestWith(world, await fields(world)),
      code: 'validation_failed',
      message,
    })
  return {
    ...Object.fromEntries(
      Object.entries(faulty).map(([title, [fields, message]]) => [
        title,
        refused(() => Promise.resolve(fields), message),
      ]),
    ),
    'what is to answer silence at once': refused(
      async (world) => ({
        trigger: 'autoresponder_nonopen',
        trigger_autoresponder_to_open_id: (await newAutoresponder(world)).id,
      }),
      /^delay must be with_delay/,
    ),
    'a target of another organization': refused(
      async (world) => ({
        trigger: 'autoresponder_send',
        trigger_autoresponder_to_send_id: (await newAutoresponder(world.foreign)).id,
      }),
      /^trigger_autoresponder_to_send_id: there is no autoresponder/,
    ),
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
      'a Remote List': (world) => onRemoteList(world, { body: { autoresponder: welcome } }),
      'a name that is taken, in any case': async (world) => ({
        sent: {
          params: { mailing_list_id: (await newAutoresponder(world)).mailing_list_id },
          body: { autoresponder: { name: 'WELCOME', trigger: 'api' } },
        },
        code: 'validation_failed',
        message: /^name .* is taken/,
      }),
      ...faults(async (world, fields) => ({
        params: { mailing_list_id: (await world.list()).id },
        body: { autoresponder: { ...welcome, ...fields } },
      })),
    },
  },
  updateAutoresponder: {
    good: async (world) => ({
      params: paramsOf(await newAutoresponder(world)),
      body: { autoresponder: { name: 'Renamed', paused: true, from_name: null } },
    }),
    failures: {
      'a Remote List': (world) =>
        onRemoteList(world, { params: { id: 1 }, body: { autoresponder: { paused: true } } }),
      'a name that is taken, in any case': async (world) => {
        const { mailing_list_id } = await newAutoresponder(world)
        const other = await world.post(`/mailing_lists/${mailing_list_id}/autoresponders`, {
          autoresponder: { ...welcome, name: 'Other' },
        })
        return {
          sent: { params: paramsOf(other), body: { autoresponder: { name: 'WELCOME' } } },
          code: 'validation_failed',
          message: /^name .* is taken/,
        }
      },
      ...faults(async (world, fields) => ({
        params: paramsOf(await newAutoresponder(world)),
        body: { autoresponder: fields },
      })),
      'more than a megabyte of contents': async (world) => {
        const autoresponder = await newAutoresponder(world)
        await world.service.collections.autoresponders.updateOne(
          { _id: autoresponder.id },
          { $set: { content_html: 'x'.repeat(1_048_576), content_subject: 'Welcome' } },
        )
        return {
          sent: { params: paramsOf(autoresponder), body: { autoresponder: { content_text: 'x'.repeat(9) } } },
          code: 'validation_failed',
          message: /must have at most 1048576 bytes in all$/,
        }
      },
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
        const first = await newAutoresponder(world)
        const second = await newAutoresponder(world, {
          trigger: 'autoresponder_send',
          trigger_autoresponder_to_send_id: first.id,
        })
        return {
          sent: {
            params: paramsOf(first),
            body: {
              autoresponder: {
                trigger: 'autoresponder_send',
                trigger_autoresponder_to_send_id: second.id,
              },
            },
          },
          code: 'validation_failed',
          message: /^trigger_autoresponder_to_send_id: .* in a cycle/,
        }
      },
    },
  },
}
