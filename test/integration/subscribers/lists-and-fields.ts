import t from 'tap'
import { createList } from '../../helpers/service.ts'
import { service } from './service.ts'

const { call, get, post } = service

t.test('a mailing list is created, changed and shown', async (t) => {
  const list = await post('/mailing_lists', { mailing_list: { name: ' News ', has_format: true } })
  t.same(list, {
    id: list.id,
    organization_id: 1,
    name: 'News',
    has_format: true,
    has_confirmed: false,
    is_remote_list: false,
    primary_key_custom_field_id: null,
  })
  t.match((await call('POST', '/mailing_lists', { mailing_list: { name: 'NEWS' } })).body, {
    error_code: 'validation_failed',
    error_message: /taken/,
  })
  t.match(
    (
      await call('PUT', `/mailing_lists/${list.id}`, {
        mailing_list: { name: 'Old news', has_confirmed: true },
      })
    ).body.data,
    { name: 'Old news', has_confirmed: true, has_format: true },
  )
  t.match(
    await post('/mailing_lists', { mailing_list: { name: 'news' } }),
    { name: 'news' },
    'the old name is free',
  )
})

t.test('custom fields of all nine types are created and shown', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/custom_fields`
  const fields = [
    { name: 'Text', field_type: 'text', minimum_length: 2, maximum_length: 5, default: 'abc' },
    { name: 'Multi', field_type: 'text_multiline', required: true },
    { name: 'Number', field_type: 'number', minimum_value: -5, maximum_value: 5, default: '3' },
    { name: 'Date', field_type: 'date', default: '12/31/2014' },
    { name: 'Day', field_type: 'day_of_year', default: '02-29' },
    { name: 'Dropdown', field_type: 'select_single_dropdown', options: [' a ', 'B'], default: 'A' },
    { name: 'Radio', field_type: 'select_single_radio', options: ['x'] },
    {
      name: 'Boxes',
      field_type: 'select_multiple_checkboxes',
      options: ['1', '2', '3'],
      default: ['3', '1'],
    },
    { name: 'Flag', field_type: 'boolean', default: true },
  ]
  const views = []
  for (const field of fields) views.push(await post(path, { custom_field: field }))
  t.same(
    views.map((view) => view.default),
    ['abc', null, 3, '2014-12-31', '02-29', 'a', null, ['1', '3'], true],
  )
  t.same(views[5].options, ['a', 'B'])
  t.same(views[0], {
    id: views[0].id,
    mailing_list_id: list.id,
    name: 'Text',
    field_type: 'text',
    required: false,
    options: [],
    default: 'abc',
    minimum_length: 2,
    maximum_length: 5,
    minimum_value: null,
    maximum_value: null,
  })
  t.same(await get(path), views)
})

t.test('settings that do not go together are refused', async (t) => {
  const list = await createList(service, [{ name: 'Taken', field_type: 'text' }])
  const path = `/mailing_lists/${list.id}/custom_fields`
  const bad = [
    { name: 'TAKEN', field_type: 'text' },
    { name: 'Email', field_type: 'text' },
    { name: 'x'.repeat(50), field_type: 'text' },
    { name: '', field_type: 'text' },
    { name: 'a', field_type: 'colour' },
    { name: 'a', field_type: 'select_single_radio' },
    { name: 'a', field_type: 'text', options: ['x'] },
    { name: 'a', field_type: 'select_single_radio', options: ['x', 'X'] },
    { name: 'a', field_type: 'select_single_radio', options: ['x', ' '] },
    { name: 'a', field_type: 'number', minimum_length: 1 },
    { name: 'a', field_type: 'text', minimum_value: 1 },
    { name: 'a', field_type: 'text', minimum_length: 5, maximum_length: 4 },
    { name: 'a', field_type: 'number', default: 'x' },
    { name: 'a', field_type: 'number', minimum_value: 5, default: 4 },
    { name: 'a', field_type: 'date', default: '2014-02-30' },
    { name: 'a', field_type: 'boolean', default: 1 },
    { name: 'a', field_type: 'text', required: 'yes' },
  ]
  const answers: unknown[] = []
  for (const custom_field of bad)
    answers.push([JSON.stringify(custom_field), (await call('POST', path, { custom_field })).body])
  t.match(
    answers,
    bad.map((custom_field) => [JSON.stringify(custom_field), { error_code: 'validation_failed' }]),
  )
  t.equal((await get(path)).length, 1, 'nothing was created')
})

t.test('the type of a field stays, the rest may change', async (t) => {
  const list = await createList(service)
  const path = `/mailing_lists/${list.id}/custom_fields`
  const field = await post(path, {
    custom_field: { name: 'Plan', field_type: 'select_single_radio', options: ['a', 'b'], default: 'b' },
  })
  t.match(
    (await call('PUT', `${path}/${field.id}`, { custom_field: { name: 'Tariff', options: ['b', 'c'] } })).body
      .data,
    { name: 'Tariff', options: ['b', 'c'], default: 'b' },
  )
  t.match((await call('PUT', `${path}/${field.id}`, { custom_field: { field_type: 'text' } })).body, {
    error_code: 'validation_failed',
  })
  t.match((await call('PUT', `${path}/${field.id}`, { custom_field: { options: ['c'] } })).body, {
    error_code: 'validation_failed',
    error_message: /^default must be/,
  })
  t.match((await call('PUT', `${path}/${field.id}`, { custom_field: { default: null } })).body.data, {
    default: null,
  })
  t.match((await call('DELETE', `${path}/${field.id}`)).body, { success: true, data: null })
  t.match((await call('DELETE', `${path}/${field.id}`)).body, { error_code: 'not_found' })
})

t.test(
  'a subscriber who moves behind the removal of a deleted field takes no value of it along',
  async (t) => {
    const list = await createList(service)
    const path = `/mailing_lists/${list.id}`
    const field = async (name: string): Promise<number> =>
      (await post(`${path}/custom_fields`, { custom_field: { name, field_type: 'text' } })).id
    const [deleted, kept] = [await field('Deleted'), await field('Kept')]
    const { id } = await post(`${path}/subscribers`, {
      subscriber: { email: 'zoe@example.com', custom_fields: { Deleted: 'x', Kept: 'y' } },
    })
    await call('DELETE', `${path}/custom_fields/${deleted}`)
    // An engine has come as far as that.
    const { deletedFields, subscribers } = service.collections
    await deletedFields.updateOne({ _id: deleted }, { $set: { removed_to: `${list.id}:m` } })
    await call('PUT', `${path}/subscribers/${id}`, { subscriber: { email: 'ann@example.com' } })
    t.same((await subscribers.findOne({ id }))!.custom_fields, { [kept]: 'y' })
  },
)

t.test(
  'the primary key is a required text or number field, and changes only on an empty list without imports',
  async (t) => {
    const list = await createList(service)
    const path = `/mailing_lists/${list.id}`
    const add = (custom_field: unknown) => post(`${path}/custom_fields`, { custom_field })
    const optional = await add({ name: 'Optional', field_type: 'text' })
    const date = await add({ name: 'Date', field_type: 'date', required: true })
    const number = await add({ name: 'Number', field_type: 'number', required: true })
    const setKey = (id: number | null) =>
      call('PUT', path, { mailing_list: { primary_key_custom_field_id: id } })
    for (const id of [optional.id, date.id, 999_999])
      t.match((await setKey(id)).body, { error_code: 'validation_failed' })
    t.match((await setKey(number.id)).body.data, { primary_key_custom_field_id: number.id })
    t.match((await call('DELETE', `${path}/custom_fields/${number.id}`)).body, {
      error_code: 'validation_failed',
      error_message: /primary key/,
    })
    t.match(
      (await call('PUT', `${path}/custom_fields/${number.id}`, { custom_field: { required: false } })).body,
      { error_code: 'validation_failed' },
    )

    const created = await post(`${path}/subscriber_imports`, {
      subscriber_import: {
        begins_at: '2100-01-01T00:00',
        column_mapping: ['email', 'number', 'Date'],
        file_source: { type: 'json', content: 'x' },
      },
    })
    t.same(created.column_mapping, ['email', 'Number', 'Date'])
    t.match((await setKey(null)).body, { error_code: 'validation_failed', error_message: /unfinished/ })
    t.match((await call('DELETE', `${path}/custom_fields/${date.id}`)).body, {
      error_code: 'validation_failed',
      error_message: /mapped by import/,
    })
    await post(`/subscriber_imports/${created.id}/cancel`)
    // The list stays locked while another engine may still write a batch of the import.
    await service.collections.imports.updateOne({ _id: created.id }, { $set: { holds_list: true } })
    for (const refused of [setKey(null), call('DELETE', `${path}/custom_fields/${date.id}`)])
      t.match((await refused).body, { error_code: 'validation_failed', error_message: /cleared up/ })
    await service.collections.imports.updateOne({ _id: created.id }, { $unset: { holds_list: '' } })
    t.match((await setKey(null)).body, { success: true })
    t.match((await call('DELETE', `${path}/custom_fields/${date.id}`)).body, { success: true })
  },
)
