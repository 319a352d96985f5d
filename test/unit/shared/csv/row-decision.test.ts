import { BSON } from 'mongodb'
import t from 'tap'
import { BsonWriter } from '../../../../engine/stages/write/bson/bson-writer.ts'
import { subscriberWriter, updateWriter } from '../../../../engine/stages/write/subscriber-writer.ts'
import { rowDecider, needsQuota, type ExistingSubscriber } from '../../../../shared/csv/row-decision.ts'
import { wholeFault } from '../../../../shared/csv/row-fault.ts'
import { rowReader, type Row } from '../../../../shared/csv/row-reader.ts'
import type { BuiltInColumn, ImportOptions, ImportPlan } from '../../../../shared/contract/schemas/import.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { TextBytes } from '../../../../shared/values/text-bytes.ts'
import { cellsOf, columnsOf, makeField, makeOptions, makePlan } from '../../../helpers/make-plan.ts'

const now = new Date('2026-01-02T03:04:05Z')
const startedAt = new Date('2026-01-01T00:00:00Z')

const fields = [
  makeField({ id: 1, name: 'A' }),
  makeField({ id: 2, name: 'B', default: 'field default' }),
  makeField({ id: 3, name: 'C' }),
]
const columns: ImportPlan['columns'] = columnsOf('email', 'status', 'remove_time', 1, 2)

const identity = new TextBytes(Buffer.from('a@b.co'))

function deciderOf(options: Partial<ImportOptions>, plan: Partial<ImportPlan>) {
  const wholePlan = makePlan({ fields, columns, ...plan })
  const wholeOptions = makeOptions(options)
  const reader = rowReader(wholePlan, wholeOptions)
  const { mappedFieldIds } = reader
  const decider = rowDecider({ plan: wholePlan, options: wholeOptions, mappedFieldIds, startedAt })
  return {
    plan: wholePlan,
    projection: decider.projection,
    decide: (cells: string[], existing: Partial<ExistingSubscriber> | undefined) => {
      const row = reader.read(cellsOf(cells)) as Row
      const subscriber =
        existing === undefined
          ? undefined
          : { _id: '9:a@b.co', id: 5, status: 'active' as const, custom_fields: {}, ...existing }
      return decider.decide({ row, newId: 77, now: now.getTime() }, subscriber)
    },
  }
}

function decide(
  cells: string[],
  existing: Partial<ExistingSubscriber> | undefined,
  options: Partial<ImportOptions> = {},
  plan: Partial<ImportPlan> = {},
) {
  const decider = deciderOf(options, plan)
  const { plan: wholePlan } = decider
  const decision = decider.decide(cells, existing)
  const writer = new BsonWriter()
  switch (decision.result) {
    case 'added':
      subscriberWriter(9, wholePlan.fields)(writer, identity, decision.subscriber)
      return { result: 'added', document: BSON.deserialize(writer.bytes) }
    case 'updated': {
      const { from, to, update } = decision
      updateWriter(9, wholePlan.fields)(writer, identity, update, false)
      return { result: 'updated', from, to, ...changesOf(writer) }
    }
    default:
      return decision
  }
}

/** The changes of the statement; empty when there is none. */
function changesOf(writer: BsonWriter): { set: Record<string, unknown>; unset: string[] } {
  if (writer.length === 0) return { set: {}, unset: [] }
  const { q, u } = BSON.deserialize(writer.bytes) as {
    q: unknown
    u: { $set?: Record<string, unknown>; $unset?: object }
  }
  t.same(q, { _id: '9:a@b.co' })
  return { set: u.$set ?? {}, unset: Object.keys(u.$unset ?? {}) }
}

t.test('a new subscriber gets the file, then defaults of the import, then of the fields', async (t) => {
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
})

t.test('a subscriber that is added as non-active has a remove time', async (t) => {
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

t.test('without apply_custom_field_defaults a field has what the file or the import brings', async (t) => {
  const off = { apply_custom_field_defaults: false }
  const { document } = decide(['a@b.co', '', '', '', ''], undefined, off) as { document: unknown }
  t.same((document as SubscriberDocument).custom_fields, {})
  const { document: withDefault } = decide(['a@b.co', '', '', '', ''], undefined, off, {
    default_values: { 2: 'from the import' },
  }) as { document: unknown }
  t.same((withDefault as SubscriberDocument).custom_fields, { 2: 'from the import' })
  const required = {
    fields: [makeField({ id: 2, name: 'B', required: true, default: 'x' })],
    columns: [...columns.slice(0, 3), columns[4]!],
  }
  t.match(decide(['a@b.co', '', '', ''], undefined, off, required), {
    result: 'failed',
    fault: { kind: 'no_value', column: 3, field_id: 2 },
  })
  t.match(decide(['a@b.co', '', '', ''], undefined, {}, required), { result: 'added' })
})

t.test('a required field without a value refuses a new subscriber, not an existing one', async (t) => {
  const required = { fields: [makeField({ id: 1, name: 'A', required: true })], columns: columns.slice(0, 4) }
  t.match(decide(['a@b.co', '', '', ''], undefined, {}, required), {
    result: 'failed',
    reason: /^A: /,
    fault: { kind: 'no_value', column: 3, field_id: 1 },
  })
  const unmapped = { ...required, columns: columns.slice(0, 3) }
  t.match(decide(['a@b.co', '', ''], undefined, {}, unmapped), {
    result: 'failed',
    fault: { kind: 'no_value', column: null, field_id: 1 },
  })
  t.match(decide(['a@b.co', '', '', ''], {}, { overwrite: true }, required), { result: 'updated' })
  t.match(
    decide(
      ['a@b.co', '', '', ''],
      { custom_fields: { 1: 'x' } },
      { overwrite: true, blank_cells: 'clear' },
      required,
    ),
    {
      result: 'failed',
      reason: /can't be cleared/,
      fault: { kind: 'not_clearable', column: 3, field_id: 1 },
    },
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

t.test('an update writes single fields; a blank cell keeps, takes the default, or clears', async (t) => {
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
})

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

const builtIn = (...names: BuiltInColumn[]): Partial<ImportPlan> => ({
  fields: [],
  columns: columnsOf(...names),
})
const overwriteStatus: Partial<ImportOptions> = {
  overwrite: true,
  overwrite_what: { custom_fields: false, confirmed: false, format: false, status: true },
  overwrite_when_status: { active: true, unsubscribed: true, bounced: true, deactivated: true, scomp: true },
}

t.test('a time of removal without a status or a consent says that the subscriber left', async (t) => {
  const left = ['a@b.co', '2020-01-01']
  const removed = { status: 'unsubscribed', remove_time: new Date('2020-01-01T00:00:00Z') }
  const times = builtIn('email', 'remove_time')
  t.match(decide(left, undefined, {}, times), { document: removed })
  t.match(decide(['a@b.co', ''], undefined, {}, times), { document: { status: 'active' } })
  t.match(decide(left, {}, overwriteStatus, times), { to: 'unsubscribed', set: removed })
  t.match(decide(left, { status: 'bounced' }, overwriteStatus, times), { to: 'unsubscribed', set: removed })
  t.match(decide(['a@b.co', ''], {}, overwriteStatus, times), { to: 'active' })
  t.match(decide(left, {}, { overwrite: true }, times), { to: 'active', set: {} }, 'by its switch alone')

  const bounced: Partial<ImportOptions> = {
    subscriber_defaults: { status: 'bounced' },
    given_defaults: ['status'],
  }
  t.match(decide(left, undefined, bounced, times), { document: { ...removed, status: 'bounced' } })
  t.match(decide(left, {}, { ...overwriteStatus, ...bounced }, times), { to: 'bounced' })
  t.match(decide(['a@b.co', 'active', '2020-01-01'], undefined), { document: { status: 'active' } })
  t.match(decide(['a@b.co', '', '2020-01-01'], undefined), { document: { status: 'active' } })
  const consent = builtIn('email', 'consent', 'remove_time')
  t.match(decide(['a@b.co', 'yes', '2020-01-01'], undefined, {}, consent), { document: { status: 'active' } })
  t.match(
    decide(['a@b.co', '', '2020-01-01'], undefined, {}, consent),
    { document: removed },
    'a blank consent is as if the column were not there',
  )
})

t.test('defaults of the request reach existing subscribers where no column brings a value', async (t) => {
  const unsubscribes: Partial<ImportOptions> = {
    ...overwriteStatus,
    subscriber_defaults: { status: 'unsubscribed' },
    given_defaults: ['status'],
  }
  const emails = builtIn('email')
  t.match(decide(['a@b.co'], {}, unsubscribes, emails), {
    ...{ from: 'active', to: 'unsubscribed' },
    set: { status: 'unsubscribed', remove_time: now },
  })
  t.match(decide(['a@b.co'], undefined, unsubscribes, emails), { document: { status: 'unsubscribed' } })
  t.match(
    decide(['a@b.co'], {}, { ...unsubscribes, given_defaults: [] }, emails),
    { to: 'active', set: {} },
    'not what is filled in',
  )
  t.match(
    decide(['a@b.co'], {}, { ...unsubscribes, overwrite_what: makeOptions().overwrite_what }, emails),
    { to: 'active', set: {} },
    'not without its switch',
  )
  t.match(decide(['a@b.co', ''], {}, unsubscribes, builtIn('email', 'status')), { to: 'active', set: {} })
  t.match(decide(['a@b.co', ''], {}, unsubscribes, builtIn('email', 'consent')), { to: 'unsubscribed' })
  t.match(decide(['a@b.co', 'yes'], {}, unsubscribes, builtIn('email', 'consent')), { to: 'active' })

  const others: Partial<ImportOptions> = {
    overwrite: true,
    overwrite_what: { custom_fields: false, confirmed: true, format: true, status: false },
    subscriber_defaults: { status: 'active', confirmed: true, format: 'text' },
    given_defaults: ['confirmed', 'format'],
  }
  const both = { has_format: true, has_confirmed: true }
  t.match(decide(['a@b.co'], { confirmed: false }, others, { ...emails, ...both }), {
    set: { format: 'text', confirmed: true, confirm_time: now },
  })
  const mapped = { ...builtIn('email', 'confirmed', 'email_format'), ...both }
  t.match(decide(['a@b.co', '', ''], { confirmed: false }, others, mapped), { set: {}, unset: [] })
  t.match(
    decide(
      ['a@b.co'],
      { confirmed: true },
      { ...others, subscriber_defaults: { ...others.subscriber_defaults!, confirmed: false } },
      { ...emails, ...both },
    ),
    { set: { confirmed: false }, unset: ['confirm_time'] },
  )
})

t.test('on a list with a primary key an update writes the email and leaves the key', async (t) => {
  const keyed: Partial<ImportPlan> = {
    identity: { kind: 'text', column: 1, field_id: 1 },
    columns: columnsOf('email', 1),
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

const removalColumns: ImportPlan['columns'] = columnsOf(
  'email',
  'status',
  'remove_time',
  'remove_ip',
  'subscribe_time',
  'subscribe_ip',
)
const everyStatus = { active: true, unsubscribed: true, bounced: true, deactivated: true, scomp: true }
const statusAlone = { custom_fields: false, confirmed: false, format: false, status: true }
const confirmedAlone = { custom_fields: false, confirmed: true, format: false, status: false }

t.test('an active subscriber has no time or address of a removal, whatever the row gives', async (t) => {
  const removal = ['2020-01-01', '192.0.2.1', '2019-01-01', '192.0.2.2']
  const plan = { columns: removalColumns, fields: [] }
  const subscribed = { subscribe_time: new Date('2019-01-01T00:00:00Z'), subscribe_ip: '192.0.2.2' }
  const removed = { remove_time: new Date('2020-01-01T00:00:00Z'), remove_ip: '192.0.2.1' }
  const added = {
    ...{ _id: '9:a@b.co', id: 77, mailing_list_id: 9, email: 'a@b.co', created_at: now, custom_fields: {} },
    ...subscribed,
  }
  t.same(decide(['a@b.co', 'active', ...removal], undefined, {}, plan), {
    result: 'added',
    document: { ...added, status: 'active' },
  })
  t.same(decide(['a@b.co', 'scomp', ...removal], undefined, {}, plan), {
    result: 'added',
    document: { ...added, ...removed, status: 'scomp' },
  })

  const options = { overwrite: true, overwrite_what: statusAlone, overwrite_when_status: everyStatus }
  t.same(decide(['a@b.co', 'active', ...removal], {}, options, plan), {
    ...{ result: 'updated', from: 'active', to: 'active' },
    ...{ set: { status: 'active', ...subscribed }, unset: [] },
  })
  t.same(decide(['a@b.co', 'scomp', ...removal], {}, options, plan), {
    ...{ result: 'updated', from: 'active', to: 'scomp' },
    ...{ set: { status: 'scomp', ...subscribed, ...removed }, unset: [] },
  })
  t.same(decide(['a@b.co', 'scomp'], { status: 'bounced' }, options, plan), {
    ...{ result: 'updated', from: 'bounced', to: 'scomp' },
    ...{ set: { status: 'scomp' }, unset: [] },
  })
  t.same(decide(['a@b.co', 'scomp', ...removal], { status: 'bounced' }, options, plan), {
    ...{ result: 'updated', from: 'bounced', to: 'scomp' },
    ...{ set: { status: 'scomp', ...subscribed, ...removed }, unset: [] },
  })
  for (const [before, after] of [
    [undefined, 1],
    [2, 3],
  ] as const)
    t.same(
      decide(
        ['a@b.co', 'active'],
        { status: 'bounced', ...(before && { reactivations: before }) },
        options,
        plan,
      ),
      {
        ...{ result: 'updated', from: 'bounced', to: 'active' },
        ...{ set: { status: 'active', reactivations: after }, unset: ['remove_time', 'remove_ip'] },
      },
    )
})

t.test('a subscriber that becomes confirmed has a confirm time, an unconfirmed one has none', async (t) => {
  const plan: Partial<ImportPlan> = {
    has_confirmed: true,
    fields: [],
    columns: columnsOf('email', 'confirmed', 'confirm_time'),
  }
  const confirmTime = new Date('2020-01-01T00:00:00Z')
  const options = { overwrite: true, overwrite_what: confirmedAlone }
  const updated = (cells: string[], confirmed: boolean | undefined, what = confirmedAlone) => {
    const found = decide(
      ['a@b.co', ...cells],
      { ...(confirmed === undefined ? {} : { confirmed }) },
      { ...options, overwrite_what: what },
      plan,
    )
    return 'set' in found ? { set: found.set, unset: found.unset } : found
  }
  const cases: [cells: string[], confirmed: boolean | undefined, set: object, unset: string[]][] = [
    [['yes'], undefined, { confirmed: true, confirm_time: now }, []],
    [['yes'], false, { confirmed: true, confirm_time: now }, []],
    [['yes', '2020-01-01'], false, { confirmed: true, confirm_time: confirmTime }, []],
    [['yes'], true, { confirmed: true }, []],
    [['yes', '2020-01-01'], true, { confirmed: true, confirm_time: confirmTime }, []],
    [['no'], true, { confirmed: false }, ['confirm_time']],
    [['no', '2020-01-01'], true, { confirmed: false }, ['confirm_time']],
    [['', '2020-01-01'], true, { confirm_time: confirmTime }, []],
    [['', '2020-01-01'], false, {}, []],
    [[''], true, {}, []],
  ]
  for (const [cells, confirmed, set, unset] of cases)
    t.same(updated(cells, confirmed), { set, unset }, `${cells.join(' ')} where it is ${confirmed}`)
  t.same(updated(['no'], true, { ...confirmedAlone, confirmed: false }), { set: {}, unset: [] })

  const addedWith = (...cells: string[]) => decide(['a@b.co', ...cells], undefined, {}, plan)
  t.match(addedWith('yes', '2020-01-01'), { document: { confirmed: true, confirm_time: confirmTime } })
  t.match(addedWith('no', '2020-01-01'), { document: { confirmed: false, confirm_time: undefined } })
})

t.test('a required field has its value, or had none before', async (t) => {
  const required = { fields: [makeField({ id: 1, name: 'A', required: true })], columns: columns.slice(0, 4) }
  const clear: Partial<ImportOptions> = { overwrite: true, blank_cells: 'clear' }
  t.match(decide(['a@b.co', '', '', 'x'], undefined, {}, required), {
    document: { custom_fields: { 1: 'x' } },
  })
  t.match(decide(['a@b.co', '', '', ''], undefined, {}, { ...required, default_values: { 1: 'd' } }), {
    document: { custom_fields: { 1: 'd' } },
  })
  t.same(decide(['a@b.co', '', '', ''], {}, clear, required), {
    ...{ result: 'updated', from: 'active', to: 'active' },
    ...{ set: {}, unset: ['custom_fields.1'] },
  })
  t.same(decide(['a@b.co', '', '', 'new'], { custom_fields: { 1: 'old' } }, clear, required), {
    ...{ result: 'updated', from: 'active', to: 'active' },
    ...{ set: { 'custom_fields.1': 'new' }, unset: [] },
  })
})

t.test('a blank cell keeps what is there, and defaults are custom fields too', async (t) => {
  const cells = ['a@b.co', '', '', 'new', '']
  const kept = { result: 'updated', from: 'active', to: 'active' }
  t.same(decide(cells, {}, { overwrite: true }), { ...kept, set: { 'custom_fields.1': 'new' }, unset: [] })
  t.same(
    decide(
      cells,
      {},
      { overwrite: true, overwrite_what: statusAlone },
      { default_values: { 2: 'd2', 3: 'd3' } },
    ),
    { ...kept, set: {}, unset: [] },
  )
  const keyed: Partial<ImportPlan> = {
    identity: { kind: 'text', column: 1, field_id: 1 },
    columns: columnsOf('email', 1),
    default_values: { 1: 'a default of the key' },
  }
  t.same(decide(['a@b.co', 'KEY'], {}, { overwrite: true }, keyed), {
    ...kept,
    set: { email: 'a@b.co', email_key: 'a@b.co' },
    unset: [],
  })
})

t.test('a row leaves nothing for the next one', async (t) => {
  const { decide } = deciderOf({ overwrite: true }, { default_values: { 3: 'd3' } })
  const values = (cells: string[], existing?: object): unknown[] => {
    const decision = decide(cells, existing)
    if (decision.result === 'added') return decision.subscriber.values.map((value) => value && String(value))
    return decision.result === 'updated' ? decision.update.values.map((value) => value && String(value)) : []
  }
  t.same(values(['a@b.co', '', '', 'x', 'y']), ['x', 'y', 'd3'])
  t.same(values(['a@b.co']), [null, 'field default', 'd3'])
  t.same(values(['a@b.co', '', '', 'x', 'y'], {}), ['x', 'y', 'd3'])
  t.same(values(['a@b.co'], {}), [null, null, 'd3'])
})

t.test('the projection of existing subscribers has all fields that the decision reads', async (t) => {
  const plan: Partial<ImportPlan> = {
    identity: { kind: 'text', column: 1, field_id: 1 },
    columns: columnsOf('email', 1),
    fields: [
      makeField({ id: 1, name: 'Key', required: true }),
      makeField({ id: 2, name: 'Needed', required: true }),
      makeField({ id: 3, name: 'Other' }),
    ],
  }
  const projection = (options: Partial<ImportOptions>) => deciderOf(options, plan).projection
  const whole = { id: 1, status: 1, confirmed: 1, reactivations: 1 }
  const clear = { overwrite: true, blank_cells: 'clear' } as const
  t.same(projection({ blank_cells: 'clear' }), { _id: 1 })
  t.same(projection({ overwrite: true }), whole)
  t.same(projection({ ...clear, overwrite_what: statusAlone }), whole)
  t.same(projection(clear), { ...whole, 'custom_fields.2': 1 })
})

t.test('a subscriber that becomes active counts against the quota', async (t) => {
  const options = { overwrite: true, overwrite_what: statusAlone, overwrite_when_status: everyStatus }
  const { decide } = deciderOf(options, {})
  const cases: [cells: string[], from: ExistingSubscriber['status'] | undefined, takes: boolean][] = [
    [['a@b.co', 'active'], undefined, true],
    [['a@b.co', 'scomp'], undefined, false],
    [['a@b.co', 'active'], 'bounced', true],
    [['a@b.co', 'active'], 'active', false],
    [['a@b.co', 'bounced'], 'active', false],
    [['a@b.co', 'bounced'], 'scomp', false],
  ]
  for (const [cells, from, takes] of cases)
    t.equal(needsQuota(decide(cells, from && { status: from })), takes, `${cells[1]} after ${from}`)
  t.equal(needsQuota({ result: 'failed', reason: '', fault: wholeFault('no_value') }), false)
  t.equal(needsQuota({ result: 'skipped_overwrite' }), false)
})
