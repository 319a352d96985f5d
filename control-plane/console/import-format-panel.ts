import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { CharacterSet } from '../../shared/contract/schemas/import.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import { hasAmbiguousDates, otherWarnings } from './import-columns.ts'
import type { ChosenFormat, DraftState, ImportDraft } from './import-draft.ts'
import { separatorName } from './import-settings.ts'
import { Warnings } from './import.ts'
import { Check, Fault, Field, isTicked, Select, valueOf } from './page.ts'

/** With their names in the order in which they are usual. */
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

const separators = [',', ';', '\t', '|']

interface PanelProps {
  draft: ImportDraft
  state: DraftState
  inspection: InspectionView
}

/** How the file is read: what was detected, and what a person changes of it. */
export function FormatPanel({ draft, state, inspection }: PanelProps): VNode {
  const { format, fields, targets, isInspecting } = state
  const change = (chosen: Partial<ChosenFormat>) => draft.changeFormat(chosen)
  const isAmbiguous = format.dates === '' && hasAmbiguousDates(inspection, targets, fields)
  const detected = (name: string) => `Detected: ${name}`
  const dates =
    inspection.date_format === null ? null : inspection.date_format === 'dmy' ? 'day first' : 'month first'
  return html`<section class="panel" aria-busy=${isInspecting}>
    <h2>How the file is read</h2>
    <div class="filters">
      <${Select}
        label="Character set"
        value=${format.characterSet}
        options=${[['', detected(characterSets[inspection.character_set])], ...Object.entries(characterSets)]}
        onPick=${(characterSet: string) => change({ characterSet })}
      />
      <${Select}
        label="Separator"
        value=${format.separator}
        options=${[['', detected(separatorName(inspection.csv_field_separator))], ...separators.map((separator) => [separator, separatorName(separator)])]}
        onPick=${(separator: string) => change({ separator })}
      />
      <${Field}
        label="Lines to skip"
        type="number" min="0" max="100"
        value=${format.skippedLines ?? inspection.csv_skip_lines}
        onChange=${(event: Event) => change({ skippedLines: Math.min(100, Math.max(0, Math.trunc(Number(valueOf(event))))) })}
      />
      <${Select}
        label="Dates"
        value=${format.dates}
        aria-invalid=${isAmbiguous}
        options=${[
          ['', isAmbiguous ? 'Choose…' : dates === null ? 'None that could be either' : detected(dates)],
          ...[
            ['mdy', 'month first'],
            ['dmy', 'day first'],
          ],
        ]}
        onPick=${(chosen: '' | 'mdy' | 'dmy') => change({ dates: chosen })}
      />
      <${Check}
        label="First line is a header"
        checked=${format.hasHeader ?? inspection.csv_has_headers}
        onChange=${(event: Event) => change({ hasHeader: isTicked(event) })}
      />
    </div>
    ${isAmbiguous && html`<p class="fault">Dates such as 01/02/2024 could be read either way: choose whether the month or the day comes first.</p>`}
    <${Fault} text=${inspection.import_error} />
    <${Warnings} warnings=${otherWarnings(inspection)} />
  </section>`
}
