import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient } from '../control-plane/cli/api-client.ts'
import type { ImportView } from '../control-plane/resources/subscriber-imports/schemas.ts'
import { hasEnded } from '../shared/contract/import-state.ts'
import type { Database } from '../shared/runtime/database.ts'
import { columns, customFields, type SubscriberFile } from './datasets/subscriber-file.ts'

export interface List {
  listId: number
  /** Ids of the custom fields, by name. */
  fieldIds: Map<string, number>
}

/** A list with custom fields, by default those that the columns of a made-up file need. */
export async function createList(
  client: ApiClient,
  name: string,
  {
    organizationId = 1,
    fields = customFields,
  }: { organizationId?: number; fields?: SubscriberFile['customFields'] } = {},
): Promise<List> {
  const { id: listId } = await client.post<{ id: number }>('/mailing_lists', {
    mailing_list: { name, organization_id: organizationId },
  })
  const fieldIds = new Map<string, number>()
  for (const field of fields) {
    const path = `/mailing_lists/${listId}/custom_fields`
    const { id } = await client.post<{ id: number }>(path, { custom_field: field })
    fieldIds.set(field.name, id)
  }
  return { listId, fieldIds }
}

export const uploaded = (filename: string) => ({ type: 'upload_directory', filename })

/** Creates an import of a made-up file; resolves to its id. */
export async function startImport(
  client: ApiClient,
  listId: number,
  request: { file_source: object; [key: string]: unknown },
): Promise<number> {
  const { id } = await client.post<{ id: number }>(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping: columns, ...request },
  })
  return id
}

/** Polls an import until it has ended, or `isWanted` is true of it. */
export async function pollImport(
  client: ApiClient,
  id: number,
  isWanted: (view: ImportView) => boolean = () => false,
): Promise<ImportView> {
  const startedAt = performance.now()
  for (;;) {
    const view = await client.get<ImportView>(`/subscriber_imports/${id}`)
    if (isWanted(view) || hasEnded(view.state)) return view
    // Polls slow down: 50 in the first second and 100 by the tenth took 4 % of a short import's CPU time.
    await sleep(Math.min(250, Math.max(20, (performance.now() - startedAt) / 10)))
  }
}

/** From `begins_at` to `finished_at` as they are stored; the API shows whole seconds. */
export async function importSeconds({ collections }: Database, importId: number): Promise<number> {
  const stored = await collections.imports.findOne({ _id: importId })
  if (!stored?.finished_at) throw new Error(`import ${importId} has no finished_at`)
  return (stored.finished_at.getTime() - stored.begins_at.getTime()) / 1000
}
