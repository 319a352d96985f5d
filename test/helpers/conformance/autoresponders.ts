import type { RequestError } from '../../../control-plane/api/request-error.ts'
import { lacksNeed } from '../../../control-plane/api/authorization.ts'
import { permission } from '../../../control-plane/api/endpoint.ts'
import {
  contentTooLarge,
  faultySettings,
  isTarget,
  isTriggeredByImport,
  nameTaken,
  noSuchTarget,
  wouldBeCycle,
} from '../../../control-plane/resources/autoresponders/refusals.ts'
import type { Json } from '../service.ts'
import { onRemoteList, type Row, type Rows, type Sent } from './row.ts'
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

const welcome = { name: 'Welcome', trigger: 'subscription' }

/** Fields that creations and changes refuse. */
const faulty: [fields: Record<string, unknown>, refused: RequestError][] = [
  [{ content_text: 'x' }, faultySettings.subjectMissing()],
  [{ use_external_delivery_setting: false }, faultySettings.senderMissing()],
  [{ delay_amount: 1 }, faultySettings.amountAtOnce()],
  [{ delay_time: 1 }, faultySettings.hourAtOnce()],
  [{ delay_unit: 'days' }, faultySettings.unitAtOnce()],
  [{ delay: 'with_delay', delay_amount: 1 }, faultySettings.unitMissing()],
  [{ delay: 'with_delay', delay_unit: 'days' }, faultySettings.noDelay()],
  [
    { delay: 'with_delay', delay_unit: 'days', delay_amount: 36_501 },
    faultySettings.delayTooLong(36_500, 'days'),
  ],
  [
    { delay: 'with_delay', delay_unit: 'minutes', delay_amount: 1, delay_time: 9 },
    faultySettings.hourOfShortDelay('minutes'),
  ],
  [
    { trigger: 'campaign_open' },
    faultySettings.targetMissing('trigger_campaign_to_open_id', 'campaign_open'),
  ],
  [
    { trigger: 'campaign_click', trigger_campaign_to_click_id: 5 },
    faultySettings.noUrl(
      'trigger_campaign_to_click_on_any_url',
      'trigger_campaign_to_click_urls',
      'campaign_click',
    ),
  ],
]

const faultyRequests = (
  requestWith: (world: World, fields: Record<string, unknown>) => Promise<Sent>,
): NonNullable<Row['refusals']> => [
  ...faulty.map(([fields, refused]) => async (world: World) => ({
    sent: await requestWith(world, fields),
    refused,
  })),
  async (world) => ({
    sent: await requestWith(world, {
      trigger: 'autoresponder_nonopen',
      trigger_autoresponder_to_open_id: (await newAutoresponder(world)).id,
    }),
    refused: faultySettings.silenceAtOnce('autoresponder_nonopen'),
  }),
  async (world) => {
    const { id } = await newAutoresponder(world.foreign)
    return {
      sent: await requestWith(world, {
        trigger: 'autoresponder_send',
        trigger_autoresponder_to_send_id: id,
      }),
      refused: noSuchTarget('trigger_autoresponder_to_send_id', id),
    }
  },
]

export const autoresponderRows: Rows = {
  listAutoresponders: {
    good: async (world) => ({
      params: { mailing_list_id: (await newAutoresponder(world)).mailing_list_id },
      query: '?name=w*&minimal=0',
    }),
    refusals: [onRemoteList()],
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
    refusals: [
      onRemoteList({ body: { autoresponder: welcome } }),
      async (world) => ({
        sent: {
          params: { mailing_list_id: (await newAutoresponder(world)).mailing_list_id },
          body: { autoresponder: { name: 'WELCOME', trigger: 'api' } },
        },
        refused: nameTaken('WELCOME'),
      }),
      ...faultyRequests(async (world, fields) => ({
        params: { mailing_list_id: (await world.list()).id },
        body: { autoresponder: { ...welcome, ...fields } },
      })),
    ],
  },
  getAutoresponder: {
    good: async (world) => ({ params: paramsOf(await newAutoresponder(world)) }),
    refusals: [onRemoteList({ params: { id: 1 } })],
  },
  deleteAutoresponder: {
    good: async (world) => ({ params: paramsOf(await newAutoresponder(world)) }),
    refusals: [
      onRemoteList({ params: { id: 1 } }),
      async (world) => {
        const target = await newAutoresponder(world)
        const other = await world.post(`/mailing_lists/${target.mailing_list_id}/autoresponders`, {
          autoresponder: {
            name: 'Other',
            trigger: 'autoresponder_open',
            trigger_autoresponder_to_open_id: target.id,
          },
        })
        return { sent: { params: paramsOf(target) }, refused: isTarget(target.id, other.id) }
      },
      async (world) => {
        const api = await newAutoresponder(world, { trigger: 'api' })
        const { id } = await world.post(`/mailing_lists/${api.mailing_list_id}/subscriber_imports`, {
          subscriber_import: {
            begins_at: '2030-01-31T08:00:00Z',
            column_mapping: ['email'],
            autoresponders: { api: { trigger_new: { id: api.id } } },
            file_source: { type: 'json', content: 'ann@example.com' },
          },
        })
        return { sent: { params: paramsOf(api) }, refused: isTriggeredByImport(api.id, id, 'scheduled') }
      },
    ],
  },
  updateAutoresponder: {
    good: async (world) => ({
      params: paramsOf(await newAutoresponder(world)),
      body: { autoresponder: { name: 'Renamed', paused: true, from_name: null } },
    }),
    refusals: [
      onRemoteList({ params: { id: 1 }, body: { autoresponder: { paused: true } } }),
      async (world) => {
        const { mailing_list_id } = await newAutoresponder(world)
        const other = await world.post(`/mailing_lists/${mailing_list_id}/autoresponders`, {
          autoresponder: { ...welcome, name: 'Other' },
        })
        return {
          sent: { params: paramsOf(other), body: { autoresponder: { name: 'WELCOME' } } },
          refused: nameTaken('WELCOME'),
        }
      },
      ...faultyRequests(async (world, fields) => ({
        params: paramsOf(await newAutoresponder(world)),
        body: { autoresponder: fields },
      })),
      async (world) => {
        const autoresponder = await newAutoresponder(world)
        await world.service.collections.autoresponders.updateOne(
          { _id: autoresponder.id },
          { $set: { content_html: 'x'.repeat(1_048_576), content_subject: 'Welcome' } },
        )
        return {
          sent: { params: paramsOf(autoresponder), body: { autoresponder: { content_text: 'x'.repeat(9) } } },
          refused: contentTooLarge(),
        }
      },
      async (world) => ({
        sent: {
          params: paramsOf(await newAutoresponder(world)),
          body: { autoresponder: { paused: true, track_opens: false } },
          key: await world.holderOf('autoresponder', 'update_state'),
        },
        refused: lacksNeed(permission('autoresponder', 'update'))(),
      }),
      async (world) => {
        const trigger = 'autoresponder_send'
        const first = await newAutoresponder(world)
        const second = await newAutoresponder(world, { trigger, trigger_autoresponder_to_send_id: first.id })
        return {
          sent: {
            params: paramsOf(first),
            body: { autoresponder: { trigger, trigger_autoresponder_to_send_id: second.id } },
          },
          refused: wouldBeCycle('trigger_autoresponder_to_send_id', [first.id, second.id, first.id]),
        }
      },
    ],
  },
}
