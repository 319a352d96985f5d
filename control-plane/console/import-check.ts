import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get } from './api.ts'
import { OutcomeCounts } from './counts.ts'
import { ask } from './dialog.ts'
import { FailedRows, WhyRowsFailed } from './failures.ts'
import { number, percent } from './format.ts'
import { hasAmbiguousDates, hasEmail, saysConsent } from './import-columns.ts'
import type { DraftState, ImportDraft } from './import-draft.ts'
import { Warnings } from './import.ts'
import { Fault } from './page.ts'
import { go, guardLeaving } from './router.ts'

interface CheckProps {
  draft: ImportDraft
  state: DraftState
  inspection: InspectionView
  onImported: () => void
}

/** The last step: a dry run with its result, and the import itself. */
export function CheckAndImport({ draft, state, inspection, onImported }: CheckProps): VNode {
  const { check, running, fault, upload } = state
  const missing = whatIsMissing(state, inspection)
  const isDisabled = missing !== null || running !== null || state.isInspecting
  const submit = async () => {
    if (check !== null && !(await isDeactivationMeant(check))) return
    const id = await draft.import()
    if (id === null) return
    onImported()
    guardLeaving(null)
    await go(`/console/imports/${id}`)
  }
  const isUploading = upload !== null && upload.sent < upload.total
  const uploading = isUploading ? ` (${percent(upload.sent / upload.total)})` : ''
  return html`<section class="panel">
    <h2>Check and import</h2>
    ${check !== null && check.state === 'finished' && html`<p class="outlook" role="status">${outlook(check, state)}</p>`}
    ${missing !== null && html`<p id="missing" class="hint">${missing}</p>`}
    <div class="buttons">
      <button type="button" disabled=${isDisabled} aria-describedby=${missing === null ? null : 'missing'} onClick=${() => void draft.check()}>
        Check without importing
      </button>
      <button type="button" class="primary" disabled=${isDisabled} aria-describedby=${missing === null ? null : 'missing'} onClick=${() => void submit()}>
        Import
      </button>
    </div>
    ${running !== null && html`<p class="loading" role="status">${running}${isUploading ? uploading : ''}…</p>`}
    <${Fault} text=${fault} />
    ${check !== null && html`<${CheckResult} ...${{ check }} />`}
  </section>`
}

/** Why the buttons can't be pressed. */
function whatIsMissing(
  { targets, options, format, fields }: DraftState,
  inspection: InspectionView,
): string | null {
  if (!hasEmail(targets)) return 'Choose the column that has the email addresses.'
  if (inspection.import_error !== null)
    return 'Change how the file is read, or its columns: see above what is wrong.'
  if (format.dates === '' && hasAmbiguousDates(inspection, targets, fields))
    return 'Choose how dates are read.'
  if (options.consent === '' && !saysConsent(targets))
    return 'Choose whether new subscribers are subscribed or unsubscribed, or the column that says so.'
  return null
}

/** What the import will do, in one sentence. */
function outlook({ stats }: ImportView, { targets, options }: DraftState): string {
  const { added, updated, failed, deactivated, skipped_overwrite: left } = stats.subscribers
  const others = stats.records_imported - added - updated - failed - left
  const become = saysConsent(targets)
    ? `${number(added)} are added with the status that their row says`
    : `${number(added)} become ${options.consent}`
  const parts = [
    become,
    ...(updated > 0 ? [`${number(updated)} are there already and are updated`] : []),
    ...(left > 0 ? [`${number(left)} are there already and stay`] : []),
    ...(others > 0 ? [`${number(others)} are skipped`] : []),
    ...(failed > 0 ? [`${number(failed)} fail`] : []),
    ...(deactivated > 0 ? [`${number(deactivated)} are deactivated`] : []),
  ]
  return `${number(stats.records_imported)} rows: ${parts.join('; ')}`
}

/** Asks where over half of the list would be deactivated. */
async function isDeactivationMeant(check: ImportView): Promise<boolean> {
  const { deactivated } = check.stats.subscribers
  if (deactivated === 0) return true
  const { mailing_lists: lists } = await get<SubscriberCountsView>('/subscriber_counts')
  const active = lists.find(({ mailing_list: list }) => list.id === check.mailing_list_id)?.counts.active ?? 0
  if (deactivated * 2 <= active) return true
  return ask({
    question: `Deactivate ${number(deactivated)} of ${number(active)} active subscribers?`,
    text: 'They are not in the file, and get no mail any more. A file that has only some of the subscribers must not deactivate the others.',
    verb: 'Import',
  })
}

function CheckResult({ check }: { check: ImportView }): VNode {
  return html`<div class="results" role="region" aria-label="Result of the check">
    <h3>${check.state === 'finished' ? 'Nothing was imported. An import now would do this:' : 'The check did not finish'}</h3>
    ${check.error_message !== null && html`<p class="fault">${check.error_message}</p>`}
    <${OutcomeCounts} counts=${check.stats.subscribers} />
    <${Warnings} warnings=${check.warnings} />
    <${WhyRowsFailed} summary=${check.failure_summary} />
    <${FailedRows} view=${check} />
  </div>`
}
