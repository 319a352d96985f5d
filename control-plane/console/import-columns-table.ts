import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import {
  canBeNew,
  columnNotes,
  newFieldName,
  ownColumns,
  usableColumns,
  type Target,
} from './import-columns.ts'
import type { DraftState, ImportDraft } from './import-draft.ts'
import { valueOf } from './page.ts'

interface TableProps {
  draft: ImportDraft
  state: DraftState
  inspection: InspectionView
}

const builtInNames: Record<string, string> = {
  ...{
    email: 'Email address',
    status: 'Status',
    consent: 'Consent (yes or no)',
    email_format: 'Email format',
  },
  ...{ subscribe_time: 'Time subscribed', subscribe_ip: 'IP subscribed from' },
  ...{ remove_time: 'Time removed', remove_ip: 'IP removed from' },
  ...{ confirmed: 'Confirmed', confirm_time: 'Time confirmed' },
}

/** What each column of the file becomes. */
export function ColumnsTable({ draft, state, inspection }: TableProps): VNode {
  const own = ownColumns(inspection)
  return html`<section class="panel">
    <h2>Columns</h2>
    <div class="table" role="region" aria-label="Columns" tabindex="0">
      <table aria-label="Columns">
        <thead>
          <tr>
            <th scope="col">Header</th>
            <th scope="col">Samples</th>
            <th scope="col">Field</th>
          </tr>
        </thead>
        <tbody>
          ${inspection.columns.map(
            ({ header, samples }, column) => html`<tr key=${column}>
              <td><strong>${header ?? `Column ${column + 1}`}</strong></td>
              <td class="samples">${samples.slice(0, 3).map((sample, i) => html`<div key=${i}>${sample}</div>`)}</td>
              <td>
                <${FieldChoice} ...${{ draft, state, inspection, column }} />
                ${own.includes(column) ? html`<p class="hint">Of the log of failed rows, and not imported.</p>` : null}
                <${Notes} ...${{ state, inspection, column }} />
              </td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`
}

function FieldChoice({ draft, state, inspection, column }: TableProps & { column: number }): VNode {
  const { fields, targets, list } = state
  const target = targets[column] ?? 'ignore'
  const isNewPossible = target === 'new' || canBeNew(column, inspection, fields, targets)
  const option = (value: Target, name: string) =>
    html`<option key=${value} value=${value} selected=${value === target}>${name}</option>`
  return html`<select
      aria-label=${`Field for column ${column + 1}`}
      value=${target}
      onChange=${(event: Event) => draft.setTarget(column, valueOf(event) as Target)}
    >
      ${option('ignore', 'Ignore')} ${isNewPossible && option('new', 'New text field')}
      <optgroup label="Subscriber">
        ${usableColumns(list).map((name) => option(`field:${name}`, builtInNames[name] ?? name))}
      </optgroup>
      ${
        fields.length > 0 &&
        html`<optgroup label="Fields of the list">${fields.map(({ name }) => option(`field:${name}`, name))}</optgroup>`
      }
    </select>
    ${target === 'new' && html`<p class="hint">The import makes the field “${newFieldName(inspection.columns[column]?.header ?? null)}”.</p>`}`
}

function Notes({ state, inspection, column }: Omit<TableProps, 'draft'> & { column: number }): VNode[] {
  return columnNotes(column, inspection, state.targets[column] ?? 'ignore').map(
    ({ text, isFault }) => html`<p key=${text} class=${isFault ? 'fault' : 'warn'}>${text}</p>`,
  )
}
