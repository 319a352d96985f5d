import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { saysConsent, type Target } from './import-columns.ts'
import { settingsOf } from './import-settings.ts'

/** The options of an import that is being prepared. */

export interface ImportOptions {
  overwrite: boolean
  overwriteWhat: ImportView['overwrite_what']
  overwriteWhenStatus: ImportView['overwrite_when_status']
  deactivate: boolean
  triggers: boolean
  triggersOnUpdated: boolean
  clearsBlanks: boolean
  usesFieldDefaults: boolean
  /** Local time of the organization; blank is at once. */
  beginsAt: string
  /** What new subscribers are, where no column says it; blank until it is chosen. */
  consent: '' | 'active' | 'unsubscribed'
  /** Further settings of the import that this one is like. */
  carried: Record<string, unknown>
}

export const defaultOptions: ImportOptions = {
  ...{ overwrite: false, deactivate: false, triggers: false, triggersOnUpdated: false, clearsBlanks: false },
  ...{ usesFieldDefaults: true, beginsAt: '', consent: '', carried: {} },
  overwriteWhat: { custom_fields: true, confirmed: false, format: false, status: false },
  overwriteWhenStatus: {
    active: true,
    unsubscribed: false,
    bounced: false,
    deactivated: false,
    scomp: false,
  },
}

/** The options of an earlier import. A part of its file must not deactivate those that are in the rest. */
export function optionsLike(
  view: ImportView,
  { overwrite, isPart }: { overwrite: boolean; isPart: boolean },
): ImportOptions {
  const { subscription } = view.autoresponders
  const { status } = view.subscriber_defaults
  const { default_custom_fields, subscriber_defaults, autoresponders } = settingsOf(view)
  return {
    ...defaultOptions,
    overwrite: overwrite || view.overwrite,
    ...(view.overwrite
      ? { overwriteWhat: view.overwrite_what, overwriteWhenStatus: view.overwrite_when_status }
      : {}),
    deactivate: !isPart && view.deactivate_subscribers_not_in_import,
    ...{
      triggers: subscription.trigger,
      triggersOnUpdated: subscription.also_trigger_on_updated_subscribers,
    },
    ...{ clearsBlanks: view.blank_cells === 'clear', usesFieldDefaults: view.apply_custom_field_defaults },
    consent: status === 'active' || status === 'unsubscribed' ? status : '',
    carried: { default_custom_fields, subscriber_defaults, autoresponders },
  }
}

/** Only what differs from the API's defaults, which warns of options without effect. */
export function creationOptions(options: ImportOptions, targets: Target[]): Record<string, unknown> {
  const { carried, consent, overwrite, beginsAt } = options
  const { status: _status, ...otherDefaults } = (carried['subscriber_defaults'] ?? {}) as Record<
    string,
    unknown
  >
  // `active` is the default; given, it would also be written to existing subscribers, and to rows with a remove time.
  const isStatusGiven =
    !saysConsent(targets) && (consent === 'unsubscribed' || (overwrite && options.overwriteWhat.status))
  const { api } = (carried['autoresponders'] ?? {}) as { api?: unknown }
  return {
    ...('default_custom_fields' in carried
      ? { default_custom_fields: carried['default_custom_fields'] }
      : {}),
    subscriber_defaults: { ...otherDefaults, ...(isStatusGiven ? { status: consent } : {}) },
    ...(overwrite
      ? {
          overwrite,
          overwrite_what: options.overwriteWhat,
          overwrite_when_status: options.overwriteWhenStatus,
        }
      : {}),
    ...(options.deactivate ? { deactivate_subscribers_not_in_import: true } : {}),
    ...(options.clearsBlanks ? { blank_cells: 'clear' } : {}),
    ...(options.usesFieldDefaults ? {} : { apply_custom_field_defaults: false }),
    ...(beginsAt === '' ? {} : { begins_at: beginsAt }),
    autoresponders: {
      subscription: {
        trigger: options.triggers,
        also_trigger_on_updated_subscribers: options.triggers && options.triggersOnUpdated && overwrite,
      },
      ...(api === undefined ? {} : { api }),
    },
  }
}
