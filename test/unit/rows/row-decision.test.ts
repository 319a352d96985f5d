import { BSON } from 'mongodb'
import t from 'tap'
import { BsonWriter } from '../../../engine/writing/bson-writer.ts'
import { subscriberWriter, updateWriter } from '../../../engine/writing/subscriber-writer.ts'
import { rowDecider, type ExistingSubscriber } from '../../../shared/rows/row-decision.ts'
import { rowReader, type Row } from '../../../shared/rows/row-reader.ts'
import type { ImportOptions, ImportPlan } from '../../../shared/schemas/import.ts'
import { makeField, makeOptions, makePlan } from '../../helpers/make-plan.ts'

const now = new Date('2026-01-02T03:04:05Z')
const startedAt = new Date('2026-01-01T00:00:00Z')

const fields = [
  makeField({ id: 1, name: 'A' }),
  makeField({ id: 2, name: 'B', default: 'field default' }),
  makeField({ id: 3, name: 'C' }),
]
const columns: ImportPlan['columns'] = [
  { kind: 'built_in', name: 'email' },
  { kind: 'built_in', name: 'status' },
  { kind: 'built_in', name: 'remove_time' },
  { kind: 'field', field_id: 1 },
  { kind: 'field', field_id: 2 },
]

function decide(
  cells: string[],
  existing: Partial<ExistingSubscriber> | undefined,
  options: Partial<ImportOptions> = {},
  plan: Partial<ImportPlan> = {},
) {
  const wholePlan = makePlan({ fields, columns, ...plan })
  const wholeOptions = makeOptions(options)
  const reader = rowReader(wholePlan, wholeOptions)
  const decider = rowDecider({
    plan: wholePlan,
    options: wholeOptions,
    mappedFieldIds: reader.mappedFieldIds,
    startedAt,
  })
  const row = reader.read(cells) as Row
  const subscriber =
    existing === undefined
      ? undefined
      : { _id: '9:a@b.co', id: 5, status: 'active' as const, custom_fields: {}, ...existing }
  const decision = decider.decide({ key: '9:a@b.co', row, newId: 77, now }, subscriber)
  const writer = new BsonWriter()
  switch (decision.result) {
    case 'added':
      subscriberWriter(9, wholePlan.fields)(writer, decision.subscriber)
      return { result: 'added', document: BSON.deserialize(writer.bytes) }
    case 'updated': {
      const { from, to, update } = decision
      updateWriter(wholePlan.fields)(writer, '9:a@b.co', update, false)
      return { result: 'updated', from, to, ...changesOf(writer) }
    }
    default:
      return decision
  }
}

/** What the statement changes; nothing when there is none. */
function changesOf(writer: BsonWriter): { set: Record<string, unknown>; unset: string[] } {
  if (writer.documents === 0) return { set: {}, unset: [] }
  const { q, u } = BSON.deserialize(writer.bytes) as {
    q: unknown
    u: { $set?: Record<string, unknown>; $unset?: object }
  }
  t.same(q, { _id: '9:a@b.co' })
  return { set: u.$set ?? {}, unset: Object.keys(u.$unset ?? {}) }
}

t.test(
  'a new subscriber gets the file, then the defaults of the import, then those of the fields',
  async (t) => {
    t.same(
      decide(
        ['A@b.co', '', '', 'x', ''],
        undefined,
        { default_custom_fields: {} },
        { default_values: { 1: 'd1', 3: 'd3' } },
      ),
      {
        result: 'added',
        document: {
          _id: '9:a@b.co',
          id: 77,
          mailing_list_id: 9,
          email: 'A@b.co',
          status: 'active',
          created_at: now,
          subscribe_time: startedAt,
          custom_fields: { 1: 'x', 2: 'field default', 3: 'd3' },
        },
      },
    )
  },
)

t.test('who is added as non-active has a remove time', async (t) => {
  t.match(decide(['a@b.co', 'bounced'], undefined), { document: { status: 'bounced', remove_time: now } })
  t.match(decide(['a@b.co', 'bounced', '2020-01-01'], undefined), {
    document: { remove_time: new Date('2020-01-01T00:00:00Z') },
  })
  t.match(decide(['a@b.co'], undefined, { subscriber_defaults: { status: 'unsubscribed' } }), {
    document: { status: 'unsubscribed', remove_time: now },
  })
})

t.test('format and confirmed are kept on lists that have them', async (t) => {
  t.match(
    decide(
      ['a@b.co'],
      undefined,
      { subscriber_defaults: { status: 'active', confirmed: true, format: 'text' } },
      { has_format: true, has_confirmed: true },
    ),
    {
      document: { format: 'text', confirmed: true, confirm_time: now },
    },
  )
  t.match(decide(['a@b.co'], undefined, {}, { has_format: true, has_confirmed: true }), {
    document: { format: 'both', confirmed: false, confirm_time: undefined },
  })
})

t.test('a required field without a value refuses a new subscriber, not an existing one', async (t) => {
  const required = { fields: [makeField({ id: 1, name: 'A', required: true })], columns: columns.slice(0, 4) }
  t.match(decide(['a@b.co', '', '', ''], undefined, {}, required), { result: 'failed', reason: /^A: / })
  t.match(decide(['a@b.co', '', '', ''], {}, { overwrite: true }, required), { result: 'updated' })
  t.match(
    decide(
      ['a@b.co', '', '', ''],
      { custom_fields: { 1: 'x' } },
      { overwrite: true, blank_cells: 'clear' },
      required,
    ),
    { result: 'failed', reason: /can't be cleared/ },
  )
})

t.test('an existing subscriber is skipped unless the switches let it be overwritten', async (t) => {
  t.same(decide(['a@b.co'], {}), { result: 'skipped_overwrite' })
  for (const status of ['unsubscribed', 'bounced', 'scomp', 'deactivated'] as const)
    t.same(decide(['a@b.co'], { status }, { overwrite: true }), { result: `skipped_${status}` }, status)
  const none = { active: false, unsubscribed: true, bounced: true, deactivated: true, scomp: true }
  t.same(decide(['a@b.co'], { status: 'active' }, { overwrite: true, overwrite_when_status: none }), {
    result: 'skipped_active',
  })
  t.match(decide(['a@b.co'], { status: 'scomp' }, { overwrite: true, overwrite_when_status: none }), {
    result: 'updated',
    from: 'scomp',
    to: 'scomp',
  })
})

t.test(
  'an update writes single custom fields; a blank cell keeps, takes the default, or clears',
  async (t) => {
    const cells = ['a@b.co', '', '', 'new', '']
    t.match(decide(cells, {}, { overwrite: true }), { set: { 'custom_fields.1': 'new' }, unset: [] })
    t.match(decide(cells, {}, { overwrite: true, blank_cells: 'clear' }), {
      set: { 'custom_fields.1': 'new' },
      unset: ['custom_fields.2'],
    })
    t.match(
      decide(cells, {}, { overwrite: true, blank_cells: 'clear' }, { default_values: { 2: 'd2', 3: 'd3' } }),
      {
        set: { 'custom_fields.1': 'new', 'custom_fields.2': 'd2', 'custom_fields.3': 'd3' },
        unset: [],
      },
    )
    t.same(
      decide(
        cells,
        {},
        {
          overwrite: true,
          overwrite_what: { custom_fields: false, confirmed: false, format: false, status: false },
        },
      ),
      {
        result: 'updated',
        set: {},
        unset: [],
        from: 'active',
        to: 'active',
      },
    )
  },
)

t.test('status is written with its times, by its switch alone', async (t) => {
  const status = {
    overwrite: true,
    overwrite_what: { custom_fields: false, confirmed: false, format: false, status: true },
  }
  const every = { active: true, unsubscribed: true, bounced: true, deactivated: true, scomp: true }
  t.match(decide(['a@b.co', 'unsubscribed'], {}, status), {
    set: { status: 'unsubscribed', remove_time: now },
    from: 'active',
    to: 'unsubscribed',
  })
  t.match(
    decide(['a@b.co', 'active'], { status: 'unsubscribed' }, { ...status, overwrite_when_status: every }),
    { set: { status: 'active' }, unset: ['remove_time', 'remove_ip'] },
  )
  const ignored = decide(['a@b.co', 'unsubscribed'], {}, { overwrite: true })
  t.match(ignored, { to: 'active', set: {} })
  t.notOk('set' in ignored && 'status' in ignored.set)
})

t.test('on a list with a primary key an update writes the email and leaves the key', async (t) => {
  const keyed: Partial<ImportPlan> = {
    identity: { kind: 'text', column: 1, field_id: 1 },
    columns: [
      { kind: 'built_in', name: 'email' },
      { kind: 'field', field_id: 1 },
    ],
    fields: [makeField({ id: 1, name: 'Key', required: true })],
  }
  t.match(decide(['New@B.co', 'KEY'], {}, { overwrite: true, blank_cells: 'clear' }, keyed), {
    set: { email: 'New@B.co', email_key: 'new@b.co' },
    unset: [],
  })
  const update = decide(['New@B.co', 'KEY'], {}, { overwrite: true }, keyed)
  t.match(update, { set: { email: 'New@B.co' } })
  t.notOk('set' in update && 'custom_fields.1' in update.set)
  t.match(decide(['New@B.co', 'KEY'], undefined, {}, keyed), {
    document: { email_key: 'new@b.co', custom_fields: { 1: 'KEY' } },
  })
})
