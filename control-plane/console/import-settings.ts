import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { statusName } from './counts.ts'

/** An import's settings: in a creation's words, to make another one like it, and in plain ones. */

type Settings = Record<string, unknown>

/** How a creation asks for the same. Absent subscribers are never deactivated: the next file may be a part of the first. */
export function settingsOf(view: ImportView): Settings {
  const {
    overwrite,
    overwrite_what,
    overwrite_when_status,
    subscriber_defaults: defaults,
    autoresponders,
  } = view
  const byId = (reference: { id: number } | null) => reference && { id: reference.id }
  const { trigger_new, trigger_updated } = autoresponders.api
  return {
    ...(overwrite ? { overwrite, overwrite_what, overwrite_when_status } : {}),
    ...{ blank_cells: view.blank_cells, default_custom_fields: view.default_custom_fields },
    apply_custom_field_defaults: view.apply_custom_field_defaults,
    // The view has the defaults that weren't given too; given, they would be written to existing subscribers as well.
    subscriber_defaults: {
      ...(defaults.status === 'active' ? {} : { status: defaults.status }),
      ...(defaults.confirmed === true ? { confirmed: true } : {}),
      ...(defaults.format === undefined || defaults.format === 'both' ? {} : { format: defaults.format }),
    },
    autoresponders: {
      subscription: autoresponders.subscription,
      api: { trigger_new: byId(trigger_new), trigger_updated: byId(trigger_updated) },
    },
  }
}

const separatorNames: Record<string, string> = {
  ...{ ',': 'comma', ';': 'semicolon', '\t': 'tab', '|': 'bar', auto: 'as the file has it' },
}
export const separatorName = (separator: string): string => separatorNames[separator] ?? separator

/** The settings that a person looks for, as names and values. */
export function describeSettings(view: ImportView): [string, string][] {
  const { file_format: format, autoresponders, subscriber_defaults: defaults } = view
  const chosen = (switches: Record<string, boolean>) =>
    Object.entries(switches)
      .filter(([, isOn]) => isOn)
      .map(([name]) => name.replaceAll('_', ' '))
      .join(', ') || 'nothing'
  const detected = (value: string, found: string | null) =>
    found === null || found === value ? value : `${value} (${found})`
  const { trigger_new: added, trigger_updated: updated } = autoresponders.api
  return [
    [
      'Existing subscribers',
      view.overwrite
        ? `overwritten: ${chosen(view.overwrite_what)}; of those who are ${chosen(view.overwrite_when_status)}`
        : 'left as they are',
    ],
    ['New subscribers are', statusName(defaults.status ?? 'active').toLowerCase()],
    [
      'Subscribers not in the file',
      view.deactivate_subscribers_not_in_import ? 'deactivated' : 'left as they are',
    ],
    ['Blank cells', view.blank_cells === 'clear' ? 'clear the field' : 'keep what is there'],
    ['On-subscription autoresponders', autoresponders.subscription.trigger ? 'sent' : 'not sent'],
    ...(added === null ? [] : ([['Autoresponder for new ones', added.name]] as [string, string][])),
    ...(updated === null ? [] : ([['Autoresponder for updated ones', updated.name]] as [string, string][])),
    ['Character set', detected(format.character_set, view.detected_character_set)],
    ['Separator', separatorName(view.detected_csv_field_separator ?? format.csv_field_separator)],
    ['First line', format.csv_has_headers ? 'a header' : 'a record'],
    ['Dates', format.date_format === 'mdy' ? 'month first' : 'day first'],
    ...(format.csv_skip_lines === 0
      ? []
      : ([['Lines skipped', String(format.csv_skip_lines)]] as [string, string][])),
  ]
}
