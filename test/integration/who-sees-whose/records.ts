import { unsubscribeToken } from '../../../control-plane/api/signed-token.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import { partnerFolder, type World } from '../../helpers/conformance/world.ts'
import { importEnd, type Json } from '../../helpers/service.ts'
import { storedUploads } from '../../helpers/stored-uploads.ts'

/** One record of each kind in an organization. What has a name has the organization's mark in it. */
export interface Records {
  mark: string
  organization: number
  key: number
  user: number
  /** The user's. */
  email: string
  list: number
  /** A list without subscribers and imports, with a field that could be its primary key. */
  emptyList: number
  emptyListField: number
  /** A list with another primary key, which has `sharedEmail`, `onlyEmail`, and `pairEmail` twice. */
  keyedList: number
  field: number
  fieldName: string
  form: number
  autoresponder: number
  template: number
  templateContent: number
  subscriber: number
  /** The same in all organizations, as the two below. */
  sharedEmail: string
  logKind: string
  idempotencyKey: string
  /** On `list` and `keyedList` of this organization alone. */
  onlyEmail: string
  /** An import that begins years later, one like it that is paused and cancelled, and one that has ended. */
  scheduledImport: number
  movedImport: number
  endedImport: number
  uploadedFile: string
  partnerFolder: string
  /** A name that the caller gives to a file. */
  newFile: string
  takenMessage: { id: number; lease_token: string }
  unsubscribeToken: string
}

export const password = 'correct horse battery'
export const pairEmail = 'pair@example.com'

/** Records that are deleted: each time another one. */
export const spares: Record<
  string,
  (world: World, records: Pick<Records, 'mark' | 'list'>) => Promise<Json>
> = {
  key: (world, { mark }) => world.post('/api_keys', { api_key: { name: world.unique(mark) } }),
  async uploadedFile({ service, admin, unique }, { mark }) {
    const id = `${unique(mark)}.csv`
    for (const name of [id, `${partnerFolder}/${id}`])
      await service.call('PUT', `/uploads/${encodeURIComponent(name)}`, 'ann@example.com', { key: admin })
    return { id }
  },
  user: (world, { mark }) =>
    world.post('/users', {
      user: {
        full_name: mark,
        email: `${world.unique(mark).replace(' ', '-')}@example.com`,
        active: true,
        role: 'standard',
        password1: password,
        password2: password,
      },
    }),
  field: (world, { mark, list }) =>
    world.post(`/mailing_lists/${list}/custom_fields`, {
      custom_field: { name: world.unique(mark), field_type: 'text' },
    }),
  form: (world, { mark, list }) =>
    world.post(`/mailing_lists/${list}/confirmation_forms`, {
      confirmation_form: { name: world.unique(mark) },
    }),
  autoresponder: (world, { mark, list }) =>
    world.post(`/mailing_lists/${list}/autoresponders`, {
      autoresponder: autoresponderOf(world.unique(mark)),
    }),
  template: (world, { mark, list }) =>
    world.post(`/mailing_lists/${list}/templates`, { campaign: { name: world.unique(mark) } }),
  subscriber: (world, { mark, list }) =>
    world.post(`/mailing_lists/${list}/subscribers`, {
      subscriber: { email: `${world.unique(mark).replace(' ', '-')}@example.com` },
    }),
}

export const importCreation = (more: object = {}) => ({
  subscriber_import: {
    begins_at: '2030-01-31T08:00:00Z',
    column_mapping: ['email'],
    file_source: { type: 'json', content: 'email\nann@example.com\n' },
    ...more,
  },
})

const autoresponderOf = (mark: string) => ({
  name: mark,
  trigger: 'api',
  content_subject: mark,
  content_text: mark,
})

/** A list whose primary key is a number, with an autoresponder; these emails are on it. */
async function makeKeyedList(world: World, mark: string, emails: string[]): Promise<number> {
  const { id } = await world.list({ list: { name: `${mark} keyed list` } })
  const { id: field } = await world.post(`/mailing_lists/${id}/custom_fields`, {
    custom_field: { name: 'Key', field_type: 'number', required: true },
  })
  const body = { mailing_list: { primary_key_custom_field_id: field } }
  const changed = await world.service.call('PUT', `/mailing_lists/${id}`, body, { key: world.admin })
  if (changed.body?.success !== true) throw new Error(`no primary key: ${changed.text}`)
  await world.post(`/mailing_lists/${id}/autoresponders`, { autoresponder: autoresponderOf(mark) })
  for (const [i, email] of emails.entries())
    await world.post(`/mailing_lists/${id}/subscribers`, {
      subscriber: { email, custom_fields: { Key: i } },
    })
  return id
}

export async function makeRecords(world: World, mark: string): Promise<Records> {
  const { service, organizationId: organization, admin, post } = world
  await service.call('PUT', `/organizations/${organization}`, { organization: { name: mark } })
  const { id: list } = await world.list({ list: { name: `${mark} list` } })
  const { id: emptyList } = await world.list({ list: { name: `${mark} empty list` } })
  const ofList = `/mailing_lists/${list}`
  const named = { name: mark }
  const idOf = async (where: string, body: unknown): Promise<number> => (await post(where, body)).id
  const sharedEmail = 'both@example.com'
  const onlyEmail = `only@${mark}.example`
  const user = await spares['user']!(world, { mark, list })
  const field = await spares['field']!(world, { mark, list })
  const form = await idOf(`${ofList}/confirmation_forms`, { confirmation_form: named })
  // A list of one record has no second page.
  await spares['user']!(world, { mark, list })
  await spares['field']!(world, { mark, list })
  await idOf(`${ofList}/confirmation_forms`, { confirmation_form: named })
  const asksToConfirm = (name: string) =>
    post(`${ofList}/subscribers`, {
      subscriber: { email: `${name}@${mark}.example` },
      confirmation_form_id: form,
    })
  await asksToConfirm('first')
  const [{ id: messageId, lease_token }] = await post('/outbox/take', {
    outbox: { limit: 1, lease_seconds: 3600 },
  })
  await asksToConfirm('second')
  const autoresponder = await idOf(`${ofList}/autoresponders`, {
    autoresponder: autoresponderOf(mark),
  })
  const subscriber = await idOf(`${ofList}/subscribers`, { subscriber: { email: sharedEmail } })
  await post(`${ofList}/subscribers`, { subscriber: { email: onlyEmail } })
  for (const triggered of [subscriber, onlyEmail])
    await post(`${ofList}/subscribers/${triggered}/trigger_autoresponders`, {
      autoresponder_ids: [autoresponder],
    })
  const template = await post(`${ofList}/templates`, {
    campaign: { ...named, contents: [{ subject: mark, text: mark }] },
  })
  const idempotencyKey = 'the same'
  const created = await service.call('POST', `${ofList}/subscriber_imports`, importCreation(), {
    key: admin,
    headers: { 'idempotency-key': idempotencyKey },
  })
  const endedImport = await idOf(
    `${ofList}/subscriber_imports`,
    importCreation({
      begins_at: 'now',
      file_source: { type: 'json', content: `email\nann@${mark}.example\n` },
    }),
  )
  await importEnd(service, endedImport)
  const uploadedFile = `${mark}.csv`
  const directory = storedUploads(service, organization)
  for (const name of [uploadedFile, `${partnerFolder}/${uploadedFile}`])
    await directory.put(name, 'email\nann@example.com\n')
  return {
    mark,
    organization,
    key: (await spares['key']!(world, { mark, list })).id,
    user: user.id,
    email: user.email,
    list,
    emptyList,
    emptyListField: await idOf(`/mailing_lists/${emptyList}/custom_fields`, {
      custom_field: { ...named, field_type: 'number', required: true },
    }),
    keyedList: await makeKeyedList(world, mark, [sharedEmail, onlyEmail, pairEmail, pairEmail]),
    field: field.id,
    fieldName: field.name,
    form,
    autoresponder,
    template: template.id,
    templateContent: template.contents[0].id,
    subscriber,
    sharedEmail,
    logKind: 'added',
    idempotencyKey,
    onlyEmail,
    scheduledImport: created.body.data.id,
    movedImport: await idOf(`${ofList}/subscriber_imports`, importCreation()),
    endedImport,
    uploadedFile,
    partnerFolder,
    newFile: 'new.csv',
    takenMessage: { id: messageId, lease_token },
    unsubscribeToken: unsubscribeToken(await keyHashSecret(service.collections), {
      listId: list,
      subscriberId: subscriber,
      messageId: '1',
    }),
  }
}

/** Whether a text names a record of an organization: by its mark, or by the id of what the record belongs to. */
export function names(text: string, records: Records): boolean {
  const { organization, list, emptyList, keyedList, autoresponder, subscriber } = records
  const ids = {
    organization_id: [organization],
    mailing_list_id: [list, emptyList, keyedList],
    autoresponder_id: [autoresponder],
    subscriber_id: [subscriber],
  }
  return (
    text.includes(records.mark) ||
    Object.entries(ids).some(([key, values]) =>
      values.some((id) => new RegExp(`"${key}":${id}\\b`).test(text)),
    )
  )
}
