import type { AuditEventView } from '../../resources/audit-events/schemas.ts'
import type { WhoamiView } from '../../resources/whoami/schemas.ts'
import type { Session } from '../session.ts'
import { writeTable } from '../terminal.ts'
import { printRecord } from './records.ts'

/** Shows who changed what, and whose API key this is. */

export interface AuditFlags {
  action?: string
  record?: string
  id?: number
  key?: number
  since?: string
  until?: string
  org?: number
  limit: number
  json?: true
}

const columns = [
  'occurred_at',
  'action',
  'record_type',
  'record_id',
  'record_name',
  'by',
  'user_name',
  'address',
  'changes',
] as const

/** Prints the newest events first, up to the limit. */
export async function listAuditEvents(session: Session, options: AuditFlags): Promise<void> {
  const { client, terminal } = session
  const query = new URLSearchParams()
  const filters = {
    ...{ action: options.action, record_type: options.record, record_id: options.id },
    ...{ api_key_id: options.key, since: options.since, until: options.until },
    organization_id: options.org,
  }
  for (const [name, value] of Object.entries(filters)) if (value !== undefined) query.set(name, String(value))
  const events: AuditEventView[] = []
  for await (const page of client.pages<AuditEventView>(`/audit_events?${query.toString()}`)) {
    events.push(...page.slice(0, options.limit - events.length))
    if (events.length >= options.limit) break
  }
  if (options.json === true) session.print(events)
  else writeTable(terminal, terminal.out, [...columns], events.map(toRow))
}

/** `by` names the key, or what acted without one. */
const toRow = (event: AuditEventView) =>
  columns.map((column) =>
    column === 'changes'
      ? event.changes.join(', ')
      : column === 'by'
        ? (event.api_key_name ?? event.by)
        : event[column],
  )

export async function showWhoami(session: Session, options: { json?: true }): Promise<void> {
  const whoami = await session.client.get<WhoamiView>('/whoami')
  if (options.json === true) {
    session.print(whoami)
    return
  }
  const { api_key: key, user, organization, role, uploads_folder: folder, permissions } = whoami
  const held = Object.entries(permissions).flatMap(([name, values]) =>
    values.map((value) => `${name}/${value}`),
  )
  printRecord(session.terminal, {
    api_key: `${key.name} (${key.id})`,
    user: user === null ? null : `${user.email} (${user.id})`,
    organization: `${organization.name} (${organization.id})`,
    time_zone_name: organization.time_zone_name,
    role,
    ...(role === 'uploads' ? { uploads_folder: folder } : {}),
    permissions: role === 'standard' ? held.join(', ') : null,
  })
}
