import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { counted, number } from './format.ts'
import { may } from './session.ts'

/** An ended import in words, with the step that usually follows. */
export function ResultsInWords({ view }: { view: ImportView }): VNode | null {
  const { state, stats, dry_run: isCheck } = view
  if (state !== 'finished')
    return state === 'cancelled' ? html`<p>It was cancelled. The rows that it had done stay.</p>` : null
  const {
    added,
    updated,
    failed,
    skipped_overwrite: left,
    skipped_duplicate: twice,
    skipped_over_limit: over,
  } = stats.subscribers
  const others = stats.records_imported - added - updated - failed - left - twice - over
  const would = isCheck ? 'would be' : 'were'
  const sentences = [
    ...(stats.records_imported === 0 ? ['The file has no record.'] : []),
    ...(added > 0 ? [`${number(added)} ${would} added.`] : []),
    ...(updated > 0 ? [`${number(updated)} were on the list already and ${would} updated.`] : []),
    ...(left > 0
      ? [`${number(left)} are on the list already and ${isCheck ? 'would be' : 'were'} left as they are.`]
      : []),
    ...(others > 0 ? [`${number(others)} have a status that is not overwritten.`] : []),
    ...(twice > 0 ? [`${number(twice)} are in the file more than once; the first row of each counts.`] : []),
    ...(over > 0
      ? [`${number(over)} found no place: the organization’s limit of active subscribers is reached.`]
      : []),
    ...(failed > 0 ? [`${counted(failed, 'row')} failed.`] : []),
  ]
  const form = `/console/lists/${view.mailing_list_id}/import?like=${view.id}`
  return html`<div class="results" role="status" aria-label="Result">
    <p>${sentences.join(' ')}</p>
    ${
      may('subscriber', 'import') &&
      html`<div class="actions">
        ${isCheck && html`<a class="button primary" href=${form}>Import it</a>`}
        ${!isCheck && left > 0 && html`<a class="button" href=${`${form}&overwrite=true`}>Import again and overwrite</a>`}
        ${!isCheck && failed > 0 && html`<a class="button" href=${form}>Import the corrected file</a>`}
      </div>`
    }
  </div>`
}
