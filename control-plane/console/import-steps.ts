import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { CharacterSet } from '../../shared/contract/schemas/import.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import { statusName } from './counts.ts'
import { zone } from './format.ts'
import {
  builtInNames,
  canBeNew,
  columnFault,
  columnWarnings,
  fieldOf,
  hasAmbiguousDates,
  newFieldName,
  otherWarnings,
  ownColumns,
  saysConsent,
  usableColumns,
  type Target,
} from './import-columns.ts'
import type { ChosenFormat, DraftState, ImportDraft } from './import-draft.ts'
import { separatorName } from './import-settings.ts'
import { Check, Fault, Field, isTicked, Select, valueOf, Warnings } from './page.ts'
import { may } from './session.ts'
import { table } from './table.ts'

/** The steps between the file and the import: how it is read, its columns, and the options. */

export interface StepProps {
  draft: ImportDraft
  state: DraftState
  inspection: InspectionView
}

/** In the order in which they are usual. */
const characterSets: Record<CharacterSet, string> = {
  ...{ 'utf-8': 'UTF-8', 'windows-1252': 'windows-1252 (Western Europe)', 'iso-8859-1': 'ISO-8859-1' },
  ...{
    'iso-8859-15': 'ISO-8859-15',
    'windows-1250': 'windows-1250 (Central Europe)',
    'iso-8859-2': 'ISO-8859-2',
  },
  ...{
    'windows-1251': 'windows-1251 (Cyrillic)',
    'utf-16': 'UTF-16',
    'utf-16le': 'UTF-16LE',
    'utf-16be': 'UTF-16BE',
  },
  ...{
    shift_jis: 'Shift_JIS (Japanese)',
    gbk: 'GBK (Chinese)',
    big5: 'Big5 (Chinese)',
    'euc-kr': 'EUC-KR (Korean)',
  },
}

const separators = [',', ';', '\t', '|'].map((separator) => [separator, separatorName(separator)])
const dateOrders = { mdy: 'month first', dmy: 'day first' }

/** What was detected of the file, and what a person changes of it; each change inspects anew. */
export function FormatPanel({ draft, state, inspection }: StepProps): VNode {
  const { format, fields, targets } = state
  const { character_set, csv_field_separator, csv_has_headers, csv_skip_lines, date_format } = inspection
  const change = (chosen: ChosenFormat) => draft.changeFormat(chosen)
  const isAmbiguous = hasAmbiguousDates(inspection, targets, fields)
  const dates = isAmbiguous
    ? 'Choose…'
    : date_format === null
      ? 'None that could be either'
      : `Detected: ${dateOrders[date_format]}`
  return html`<section class="panel" aria-busy=${state.isInspecting}>
    <h2>How the file is read</h2>
    <div class="filters">
      <${Select}
        label="Character set"
        value=${format.character_set ?? ''}
        options=${[['', `Detected: ${characterSets[character_set]}`], ...Object.entries(characterSets)]}
        onPick=${(picked: string) => change({ character_set: picked })}
      />
      <${Select}
        label="Separator"
        value=${format.csv_field_separator ?? ''}
        options=${[['', `Detected: ${separatorName(csv_field_separator)}`], ...separators]}
        onPick=${(picked: string) => change({ csv_field_separator: picked })}
      />
      <${Field}
        ...${{ label: 'Lines to skip', type: 'number', min: 0, max: 100, value: format.csv_skip_lines ?? csv_skip_lines }}
        onChange=${(event: Event) => change({ csv_skip_lines: Math.trunc(Number(valueOf(event))) })}
      />
      <${Select}
        label="Dates"
        value=${format.date_format ?? ''}
        aria-invalid=${isAmbiguous}
        options=${[['', dates], ...Object.entries(dateOrders)]}
        onPick=${(picked: string) => change({ date_format: picked })}
      />
      <${Check}
        label="First line is a header"
        checked=${format.csv_has_headers ?? csv_has_headers}
        onChange=${(event: Event) => change({ csv_has_headers: isTicked(event) })}
      />
    </div>
    ${isAmbiguous && html`<p class="fault">Dates such as 01/02/2024 could be read either way: choose whether the month or the day comes first.</p>`}
    <${Fault} text=${state.refusal ?? inspection.import_error} />
    <${Warnings} warnings=${otherWarnings(inspection)} />
  </section>`
}

/** What each column of the file becomes. */
export function ColumnsPanel({ draft, state, inspection }: StepProps): VNode {
  const own = ownColumns(inspection)
  const notes = (column: number) => html`
    ${own.includes(column) && html`<p class="hint">Of the log of failed rows, and not imported.</p>`}
    ${columnWarnings(inspection, column).map((text) => html`<p class="warn">${text}</p>`)}
    <${Fault} text=${columnFault(inspection, state.targets[column] ?? 'ignore')} />
  `
  return html`<section class="panel">
    <h2>Columns</h2>
    ${table({
      label: 'Columns',
      isStacked: true,
      rows: [...inspection.columns.entries()],
      rowKey: ([column]) => column,
      columns: [
        {
          name: 'Header',
          cell: ([column, { header }]) => html`<strong>${header ?? `Column ${column + 1}`}</strong>`,
        },
        {
          name: 'Samples',
          cell: ([, { samples }]) =>
            html`<div class="samples">${samples.slice(0, 3).map((sample) => html`<p>${sample}</p>`)}</div>`,
        },
        {
          name: 'Field',
          cell: ([column]) =>
            html`<${FieldChoice} ...${{ draft, state, inspection, column }} />${notes(column)}`,
        },
      ],
    })}
  </section>`
}

function FieldChoice({ draft, state, inspection, column }: StepProps & { column: number }): VNode {
  const { fields, targets } = state
  const target = targets[column] ?? 'ignore'
  const isNewOffered =
    target === 'new' || (may('custom_field', 'create') && canBeNew(column, inspection, fields, targets))
  const option = (value: Target, name: string) =>
    html`<option key=${value} value=${value} selected=${value === target}>${name}</option>`
  return html`<select
      aria-label=${`Field for column ${column + 1}`}
      value=${target}
      onChange=${(event: Event) => draft.setTarget(column, valueOf(event) as Target)}
    >
      ${option('ignore', 'Ignore')}
      ${isNewOffered && option('new', 'New text field')}
      <optgroup label="Subscriber">
        ${usableColumns(draft.list).map((name) => option(`field:${name}`, builtInNames[name]))}
      </optgroup>
      <optgroup label="Fields of the list">${fields.map(({ name }) => option(`field:${name}`, name))}</optgroup>
    </select>
    ${target === 'new' && html`<p class="hint">The import makes the field “${newFieldName(inspection, column)}”.</p>`}`
}

type Switches = Record<string, boolean>

/** One checkbox a switch, of those that are named. */
const switches = <Values extends Switches>(
  values: Values,
  names: [keyof Values, string][],
  change: (changed: Values) => void,
) =>
  names.map(
    ([key, name]) =>
      html`<${Check} label=${name} checked=${values[key]} onChange=${(event: Event) => change({ ...values, [key]: isTicked(event) })} />`,
  )

export function OptionsPanel({ draft, state, inspection }: StepProps): VNode {
  const { settings, targets } = state
  const { overwrite, overwrite_what: what, overwrite_when_status: when, autoresponders } = settings
  const { subscription } = autoresponders
  const parts: [keyof typeof what, string][] = [
    ['custom_fields', 'Fields'],
    ['status', 'Status'],
    ...(draft.list.has_format ? [['format', 'Email format'] as [keyof typeof what, string]] : []),
    ...(draft.list.has_confirmed ? [['confirmed', 'Confirmed'] as [keyof typeof what, string]] : []),
  ]
  const statuses = Object.keys(when).map(
    (status) => [status, statusName(status)] as [keyof typeof when, string],
  )
  const option = (label: string, checked: boolean, change: (isOn: boolean) => Partial<typeof settings>) =>
    html`<${Check} ...${{ label, checked }} onChange=${(event: Event) => draft.setSettings(change(isTicked(event)))} />`
  const trigger = (changed: Partial<typeof subscription>) => ({
    autoresponders: { ...autoresponders, subscription: { ...subscription, ...changed } },
  })
  return html`<section class="panel">
    <h2>Options</h2>
    ${!saysConsent(targets.map(fieldOf)) && html`<${Consent} ...${{ draft, state, inspection }} />`}
    ${option('Overwrite existing subscribers', overwrite, (isOn) => ({ overwrite: isOn }))}
    ${
      overwrite
        ? html`<div class="sub parts">
            <fieldset><legend>What is overwritten</legend>${switches(what, parts, (overwrite_what) => draft.setSettings({ overwrite_what }))}</fieldset>
            <fieldset><legend>Of subscribers who are</legend>${switches(when, statuses, (overwrite_when_status) => draft.setSettings({ overwrite_when_status }))}</fieldset>
          </div>`
        : html`<p class="hint sub">Who is on the list already stays as is.</p>`
    }
    ${option('Deactivate subscribers not in the file', settings.deactivate_subscribers_not_in_import, (isOn) => ({ deactivate_subscribers_not_in_import: isOn }))}
    <p class="hint sub">For a file that has everyone. Active subscribers that are missing in it are deactivated at the end.</p>
    ${option('Send on-subscription autoresponders', subscription.trigger, (isOn) => trigger({ trigger: isOn }))}
    ${subscription.trigger && overwrite && html`<div class="sub">${option('Also to updated subscribers', subscription.also_trigger_on_updated_subscribers, (isOn) => trigger({ also_trigger_on_updated_subscribers: isOn }))}</div>`}
    ${option('Blank cells clear the field', settings.blank_cells === 'clear', (isOn) => ({ blank_cells: isOn ? 'clear' : 'keep' }))}
    ${option('Fill in the fields’ defaults', settings.apply_custom_field_defaults, (isOn) => ({ apply_custom_field_defaults: isOn }))}
    <${Field}
      ...${{ label: 'Begin later', type: 'datetime-local', value: settings.begins_at }}
      hint=${`Blank: at once. The time is in ${zone()}.`}
      onChange=${(event: Event) => draft.setSettings({ begins_at: valueOf(event) })}
    />
  </section>`
}

/** Where no column says who wants mail, a person has to say it. */
function Consent({ draft, state, inspection }: StepProps): VNode {
  const { subscriber_defaults: defaults } = state.settings
  const choice = (status: 'active' | 'unsubscribed', name: string, hint: string) =>
    html`<p class="check">
      <label class="check">
        <input
          ...${{ type: 'radio', name: 'consent', required: true, checked: defaults.status === status }}
          aria-describedby=${`consent-${status}`}
          onChange=${() => draft.setSettings({ subscriber_defaults: { ...defaults, status } })}
        />
        ${name}
      </label>
      <span id=${`consent-${status}`} class="hint">${hint}</span>
    </p>`
  const columns = inspection.columns.map(({ header }, i) => [String(i), header ?? `Column ${i + 1}`])
  return html`<fieldset class="consent">
    <legend>New subscribers are</legend>
    ${choice('active', 'Subscribed', 'they agreed to get mail')} ${choice('unsubscribed', 'Unsubscribed', 'they get none')}
    <${Select}
      ...${{ label: 'Or the column that says so', value: '', options: [['', 'Choose…'], ...columns] }}
      onPick=${(column: string) => column !== '' && draft.setTarget(Number(column), 'field:consent')}
    />
  </fieldset>`
}
