import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { saysConsent } from './import-columns.ts'
import { statusName } from './counts.ts'

/** The settings of an import, as a creation names them. */
export type Settings = Pick<
  ImportView,
  | 'overwrite'
  | 'overwrite_what'
  | 'overwrite_when_status'
  | 'deactivate_subscribers_not_in_import'
  | 'blank_cells'
  | 'apply_custom_field_defaults'
  | 'default_custom_fields'
  | 'autoresponders'
> & {
  /** Without a status, no one has chosen yet what new subscribers are. */
  subscriber_defaults: Partial<ImportView['subscriber_defaults']>
  /** Local time of the organization; blank is at once. */
  begins_at: string
}

export const defaultSettings: Settings = {
  overwrite: false,
  overwrite_what: { custom_fields: true, confirmed: false, format: false, status: false },
  overwrite_when_status: {
    active: true,
    unsubscribed: false,
    bounced: false,
    deactivated: false,
    scomp: false,
  },
  deactivate_subscribers_not_in_import: false,
  blank_cells: 'keep',
  apply_custom_field_defaults: true,
  default_custom_fields: {},
  subscriber_defaults: {},
  autoresponders: {
    subscription: { trigger: false, also_trigger_on_updated_subscribers: false },
    api: { trigger_new: null, trigger_updated: null },
  },
  begins_at: '',
}

/** Those of an earlier import. A part of its file must not deactivate the subscribers that are in the rest. */
export function settingsLike(view: ImportView, isPart: boolean): Settings {
  const names = Object.keys(defaultSettings) as (keyof Settings)[]
  const same = Object.fromEntries(names.map((name) => [name, view[name]])) as unknown as Settings
  return {
    ...same,
    begins_at: '',
    deactivate_subscribers_not_in_import: view.deactivate_subscribers_not_in_import && !isPart,
    ...(view.overwrite ? {} : { overwrite_what: defaultSettings.overwrite_what }),
  }
}

/** What a creation is given: settings without effect are left out, because the API warns of them. */
export function asCreation(settings: Settings, mapping: (string | null)[]): Record<string, unknown> {
  const { overwrite, overwrite_what, overwrite_when_status, begins_at, autoresponders, ...others } = settings
  const { subscription, api } = autoresponders
  const { status, format, confirmed } = settings.subscriber_defaults
  // `active` is the default; given, it would also be written to existing subscribers, and to rows with a remove time.
  const isStatusGiven = !saysConsent(mapping) && (status !== 'active' || (overwrite && overwrite_what.status))
  const isUpdated = subscription.trigger && subscription.also_trigger_on_updated_subscribers && overwrite
  const byId = (reference: { id: number } | null) => reference && { id: reference.id }
  return {
    ...others,
    ...(overwrite ? { overwrite, overwrite_what, overwrite_when_status } : {}),
    ...(begins_at === '' ? {} : { begins_at }),
    subscriber_defaults: {
      ...(isStatusGiven && status !== undefined ? { status } : {}),
      ...(format === undefined || format === 'both' ? {} : { format }),
      ...(confirmed === true ? { confirmed } : {}),
    },
    autoresponders: {
      subscription: { trigger: subscription.trigger, also_trigger_on_updated_subscribers: isUpdated },
      api: { trigger_new: byId(api.trigger_new), trigger_updated: byId(api.trigger_updated) },
    },
  }
}

const separatorNames: Record<string, string> = { ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'bar' }
export const separatorName = (separator: string): string => separatorNames[separator] ?? 'as the file has it'

/** The settings that a person looks for, as names and values. */
export function describeSettings(view: ImportView): [string, string][] {
  const { file_format: format, autoresponders } = view
  const { trigger_new: added, trigger_updated: updated } = autoresponders.api
  const chosen = (switches: Record<string, boolean>) => {
    const names = Object.keys(switches).filter((name) => switches[name])
    return names.join(', ').replaceAll('_', ' ') || 'nothing'
  }
  const overwritten = `overwritten: ${chosen(view.overwrite_what)}; of those who are ${chosen(view.overwrite_when_status)}`
  const left = 'left as they are'
  const settings: [string, string][] = [
    ['Existing subscribers', view.overwrite ? overwritten : left],
    ['New subscribers are', statusName(view.subscriber_defaults.status ?? 'active').toLowerCase()],
    ['Subscribers not in the file', view.deactivate_subscribers_not_in_import ? 'deactivated' : left],
    ['Blank cells', view.blank_cells === 'clear' ? 'clear the field' : 'keep what is there'],
    ['On-subscription autoresponders', autoresponders.subscription.trigger ? 'sent' : 'not sent'],
    ['Autoresponder for new ones', added?.name ?? ''],
    ['Autoresponder for updated ones', updated?.name ?? ''],
    ['Character set', `${format.character_set} ${view.detected_character_set ?? ''}`],
    ['Separator', separatorName(view.detected_csv_field_separator ?? format.csv_field_separator)],
    ['First line', format.csv_has_headers ? 'a header' : 'a record'],
    ['Dates', format.date_format === 'mdy' ? 'month first' : 'day first'],
    ['Lines skipped', String(format.csv_skip_lines || '')],
  ]
  return settings.filter(([, value]) => value !== '')
}
