import { html } from 'htm/preact'
import type { CharacterSet } from '../../shared/contract/schemas/import.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import { statusName } from './counts.ts'
import { zone } from './format.ts'
import * as columns from './import-columns.ts'
import type { ChosenFormat, DraftState, ImportDraft } from './import-draft.ts'
import { separatorName, type Settings } from './import-settings.ts'
import { Check, Fault, Field, valueOf, Warnings } from './page.ts'
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
  'utf-8': 'UTF-8',
  'windows-1252': 'windows-1252 (Western Europe)',
  'iso-8859-1': 'ISO-8859-1',
  'iso-8859-15': 'ISO-8859-15',
  'windows-1250': 'windows-1250 (Central Europe)',
  'iso-8859-2': 'ISO-8859-2',
  'windows-1251': 'windows-1251 (Cyrillic)',
  'utf-16': 'UTF-16',
  'utf-16le': 'UTF-16LE',
  'utf-16be': 'UTF-16BE',
  shift_jis: 'Shift_JIS (Japanese)',
  gbk: 'GBK (Chinese)',
  big5: 'Big5 (Chinese)',
  'euc-kr': 'EUC-KR (Korean)',
}

const separators = [',', ';', '\t', '|'].map((separator) => [separator, separatorName(separator)])
const dateOrders = { mdy: 'month first', dmy: 'day first' }

/** What was detected of the file, and what a person changes of it; each change inspects anew. */
export function FormatPanel({ draft, state, inspection }: StepProps) {
  const { format, fields, targets, isInspecting } = state
  const { character_set, csv_field_separator, csv_has_headers, csv_skip_lines, date_format } = inspection
  const isAmbiguous = columns.hasAmbiguousDates(inspection, targets, fields)
  const detectedDates =
    date_format === null ? 'None that could be either' : `Detected: ${dateOrders[date_format]}`
  const dates = isAmbiguous ? 'Choose…' : detectedDates
  const choice = (label: string, key: keyof ChosenFormat, detected: string, options: string[][], more = {}) =>
    html`<${Field}
      label=${label}
      value=${format[key] ?? ''}
      options=${[['', detected], ...options]}
      onPick=${(picked: string) => draft.changeFormat({ [key]: picked })}
      ...${more}
    />`
  const skip = (event: Event) => draft.changeFormat({ csv_skip_lines: Math.trunc(Number(valueOf(event))) })
  const isHeader = (csv_has_headers: boolean) => draft.changeFormat({ csv_has_headers })
  return html`<section class="panel" aria-busy=${isInspecting}>
    <h2>How the file is read</h2>
    <div class="filters">
      ${choice('Character set', 'character_set', `Detected: ${characterSets[character_set]}`, Object.entries(characterSets))}
      ${choice('Separator', 'csv_field_separator', `Detected: ${separatorName(csv_field_separator)}`, separators)}
      <${Field} label="Lines to skip" type="number" min="0" max="100" value=${format.csv_skip_lines ?? csv_skip_lines} onChange=${skip} />
      ${choice('Dates', 'date_format', dates, Object.entries(dateOrders), { 'aria-invalid': isAmbiguous })}
      <${Check} label="First line is a header" checked=${format.csv_has_headers ?? csv_has_headers} onPick=${isHeader} />
    </div>
    ${isAmbiguous && html`<p class="fault">Dates such as 01/02/2024 could be read either way: choose whether the month or the day comes first.</p>`}
    <${Fault} text=${state.refusal ?? inspection.import_error} />
    <${Warnings} warnings=${columns.otherWarnings(inspection)} />
  </section>`
}

/** What each column of the file becomes. */
export function ColumnsPanel(props: StepProps) {
  const { state, inspection } = props
  const own = columns.ownColumns(inspection)
  const field = (column: number) => html`
    <${FieldChoice} ...${{ ...props, column }} />
    ${own.includes(column) && html`<p class="hint">Of the log of failed rows, and not imported.</p>`}
    ${columns.columnWarnings(inspection, column).map((text) => html`<p class="warn">${text}</p>`)}
    <${Fault} text=${columns.columnFault(inspection, state.targets[column] ?? 'ignore')} />
  `
  const samples = (texts: string[]) =>
    html`<div class="samples">${texts.slice(0, 3).map((text) => html`<p>${text}</p>`)}</div>`
  return html`<section class="panel">
    <h2>Columns</h2>
    ${table({
      label: 'Columns',
      isStacked: true,
      rows: inspection.columns.map(({ header, ...rest }, at) => ({
        header: header ?? `Column ${at + 1}`,
        at,
        ...rest,
      })),
      columns: [
        { name: 'Header', cell: ({ header }) => html`<strong>${header}</strong>` },
        { name: 'Samples', cell: (column) => samples(column.samples) },
        { name: 'Field', cell: ({ at }) => field(at) },
      ],
    })}
  </section>`
}

function FieldChoice({ draft, state, inspection, column }: StepProps & { column: number }) {
  const { fields, targets } = state
  const target = targets[column] ?? 'ignore'
  const canBeNew = () => columns.canBeNew({ column, inspection, fields, targets })
  const isNewOffered = target === 'new' || (may('custom_field', 'create') && canBeNew())
  const option = (value: columns.Target, name: string) =>
    html`<option key=${value} value=${value} selected=${value === target}>${name}</option>`
  return html`<select
      aria-label=${`Field for column ${column + 1}`}
      value=${target}
      onChange=${(event: Event) => draft.setTarget(column, valueOf(event) as columns.Target)}
    >
      ${option('ignore', 'Ignore')} ${isNewOffered && option('new', 'New text field')}
      <optgroup label="Subscriber">
        ${columns.usableColumns(draft.list).map((name) => option(`field:${name}`, columns.builtInNames[name]))}
      </optgroup>
      <optgroup label="Fields of the list">${fields.map(({ name }) => option(`field:${name}`, name))}</optgroup>
    </select>
    ${target === 'new' && html`<p class="hint">The import makes the field “${columns.newFieldName(inspection, column)}”.</p>`}`
}

/** An option: its label, whether it is on, what a change sets, and a sentence about it. */
type Option = [label: string, isOn: boolean, change: (isOn: boolean) => Partial<Settings>, hint?: string]

export function OptionsPanel({ draft, state, inspection }: StepProps) {
  const { settings, targets } = state
  const { has_format, has_confirmed } = draft.list
  const { overwrite, overwrite_what: what, overwrite_when_status: when, autoresponders } = settings
  const { subscription } = autoresponders
  const parts = [
    ['custom_fields', 'Fields'],
    ['status', 'Status'],
    ...(has_format ? [['format', 'Email format']] : []),
    ...(has_confirmed ? [['confirmed', 'Confirmed']] : []),
  ] as [keyof typeof what, string][]
  const statuses = Object.keys(when) as (keyof typeof when)[]
  const trigger = (changed: Partial<typeof subscription>) => ({
    autoresponders: { ...autoresponders, subscription: { ...subscription, ...changed } },
  })
  const rows = (options: Option[]) =>
    options.map(
      ([label, checked, change, hint]) =>
        html`<${Check} label=${label} checked=${checked} onPick=${(isOn: boolean) => draft.setSettings(change(isOn))} />
          ${hint !== undefined && html`<p class="hint sub">${hint}</p>`}`,
    )
  const ofOverwriting = () => html`<div class="sub parts">
    <fieldset>
      <legend>What is overwritten</legend>
      ${rows(parts.map(([key, name]) => [name, what[key], (isOn) => ({ overwrite_what: { ...what, [key]: isOn } })]))}
    </fieldset>
    <fieldset>
      <legend>Of subscribers who are</legend>
      ${rows(statuses.map((key) => [statusName(key), when[key], (isOn) => ({ overwrite_when_status: { ...when, [key]: isOn } })]))}
    </fieldset>
  </div>`
  const ofAutoresponders = () => html`<div class="sub">
    ${rows([['Also to updated subscribers', subscription.also_trigger_on_updated_subscribers, (isOn) => trigger({ also_trigger_on_updated_subscribers: isOn })]])}
  </div>`
  return html`<section class="panel">
    <h2>Options</h2>
    ${!columns.saysConsent(targets.map(columns.fieldOf)) && html`<${Consent} ...${{ draft, state, inspection }} />`}
    ${rows([['Overwrite existing subscribers', overwrite, (isOn) => ({ overwrite: isOn })]])}
    ${overwrite ? ofOverwriting() : html`<p class="hint sub">Who is on the list already stays as is.</p>`}
    ${rows([
      [
        'Deactivate subscribers not in the file',
        settings.deactivate_subscribers_not_in_import,
        (isOn) => ({ deactivate_subscribers_not_in_import: isOn }),
        'For a file that has everyone. Active subscribers that are missing in it are deactivated at the end.',
      ],
      ['Send on-subscription autoresponders', subscription.trigger, (isOn) => trigger({ trigger: isOn })],
    ])}
    ${subscription.trigger && overwrite && ofAutoresponders()}
    ${rows([
      [
        'Blank cells clear the field',
        settings.blank_cells === 'clear',
        (isOn) => ({ blank_cells: isOn ? 'clear' : 'keep' }),
      ],
      [
        'Fill in the fields’ defaults',
        settings.apply_custom_field_defaults,
        (isOn) => ({ apply_custom_field_defaults: isOn }),
      ],
    ])}
    <${Field}
      label="Begin later"
      type="datetime-local"
      value=${settings.begins_at}
      hint=${`Blank: at once. The time is in ${zone()}.`}
      onChange=${(event: Event) => draft.setSettings({ begins_at: valueOf(event) })}
    />
  </section>`
}

/** Where no column says who wants mail, a person has to say it. */
function Consent({ draft, state, inspection }: StepProps) {
  const { subscriber_defaults: defaults } = state.settings
  const choice = (status: 'active' | 'unsubscribed', name: string, hint: string) =>
    html`<p class="check">
      <label class="check">
        <input
          type="radio"
          name="consent"
          required
          checked=${defaults.status === status}
          aria-describedby=${`consent-${status}`}
          onChange=${() => draft.setSettings({ subscriber_defaults: { ...defaults, status } })}
        />
        ${name}
      </label>
      <span id=${`consent-${status}`} class="hint">${hint}</span>
    </p>`
  const choices = inspection.columns.map(({ header }, i) => [String(i), header ?? `Column ${i + 1}`])
  const pick = (column: string) => column !== '' && draft.setTarget(Number(column), 'field:consent')
  return html`<fieldset class="consent">
    <legend>New subscribers are</legend>
    ${choice('active', 'Subscribed', 'they agreed to get mail')} ${choice('unsubscribed', 'Unsubscribed', 'they get none')}
    <${Field} label="Or the column that says so" value="" options=${[['', 'Choose…'], ...choices]} onPick=${pick} />
  </fieldset>`
}
