import type { VNode } from 'preact'
import { html } from 'htm/preact'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get } from './api.ts'
import { OutcomeCounts, statusName } from './counts.ts'
import { ask } from './dialog.ts'
import { FailedRows, WhyRowsFailed } from './failures.ts'
import { number } from './format.ts'
import { fieldOf, hasAmbiguousDates, saysConsent } from './import-columns.ts'
import type { DraftState } from './import-draft.ts'
import type { StepProps } from './import-steps.ts'
import { Fault, Warnings } from './page.ts'
import { go, guardLeaving } from './router.ts'

/** The last step: a dry run with its result, and the import itself. */
export function CheckAndImport({
  draft,
  state,
  inspection,
  onImported,
}: StepProps & { onImported: () => void }): VNode {
  const { check, running, fault } = state
  const missing = whatIsMissing({ state, inspection })
  const isDisabled = missing !== null || running !== null || state.isInspecting
  const submit = async () => {
    if (check !== null && !(await isDeactivationMeant(check.view))) return
    const id = await draft.import()
    if (id === null) return
    onImported()
    guardLeaving(null)
    await go(`/console/imports/${id}`)
  }
  const button = (name: string, press: () => Promise<void>, kind = '') =>
    html`<button type="button" class=${kind} disabled=${isDisabled} aria-describedby=${missing === null ? null : 'missing'} onClick=${() => void press()}>${name}</button>`
  return html`<section class="panel">
    <h2>Check and import</h2>
    ${check?.view.state === 'finished' && html`<p class="outlook" role="status">${outlook(check, state)}</p>`}
    ${missing !== null && html`<p id="missing" class="hint">${missing}</p>`}
    <div class="buttons">
      ${button('Check without importing', () => draft.check())} ${button('Import', submit, 'primary')}
    </div>
    ${running !== null && html`<p class="loading" role="status">${running}…</p>`}
    <${Fault} text=${fault} />
    ${check !== null && html`<${CheckResult} check=${check.view} />`}
  </section>`
}

/** Why the buttons can't be pressed. */
function whatIsMissing({ state, inspection }: Pick<StepProps, 'state' | 'inspection'>): string | null {
  const { targets, settings, format, fields } = state
  if (!targets.includes('field:email')) return 'Choose the column that has the email addresses.'
  if (state.refusal !== null || inspection.import_error !== null)
    return 'Change how the file is read, or its columns: see above what is wrong.'
  if (format.date_format === undefined && hasAmbiguousDates(inspection, targets, fields))
    return 'Choose how dates are read.'
  return settings.subscriber_defaults.status === undefined && !saysConsent(targets.map(fieldOf))
    ? 'Choose whether new subscribers are subscribed or unsubscribed, or the column that says so.'
    : null
}

/** What the import will do, in one sentence. */
function outlook(check: NonNullable<DraftState['check']>, state: DraftState): string {
  const { stats } = check.view
  const { added, updated, failed, deactivated, skipped_overwrite: left } = stats.subscribers
  const parts: [number, string][] = [
    [updated, 'are there already and are updated'],
    [left, 'are there already and stay'],
    [stats.records_imported - added - updated - failed - left, 'are skipped'],
    [failed, 'fail'],
    [deactivated, 'are deactivated'],
  ]
  const rest = parts.filter(([count]) => count > 0).map(([count, what]) => `; ${number(count)} ${what}`)
  return `${number(stats.records_imported)} rows: ${newOnes(check, state)}${rest.join('')}`
}

function newOnes(
  { view, statuses }: NonNullable<DraftState['check']>,
  { targets, settings }: DraftState,
): string {
  const { added } = view.stats.subscribers
  const { status = 'active' } = settings.subscriber_defaults
  if (added === 0) return 'none is new'
  const counts = saysConsent(targets.map(fieldOf)) ? statuses : { [status]: added }
  if (counts === null) return `${number(added)} are added with the status that their row says`
  const become = Object.entries(counts).map(
    ([name, count]) => `${number(count)} ${statusName(name).toLowerCase()}`,
  )
  return become.join(', ').replace(' ', ' become ')
}

/** Asks where over half of the list would be deactivated. */
async function isDeactivationMeant({ stats, mailing_list_id: id }: ImportView): Promise<boolean> {
  const { deactivated } = stats.subscribers
  if (deactivated === 0) return true
  const { mailing_lists: lists } = await get<SubscriberCountsView>('/subscriber_counts')
  const active = lists.find(({ mailing_list: list }) => list.id === id)?.counts.active ?? 0
  if (deactivated * 2 <= active) return true
  return ask({
    question: `Deactivate ${number(deactivated)} of ${number(active)} active subscribers?`,
    text: 'They are not in the file, and get no mail any more. A file that has only some of the subscribers must not deactivate the others.',
    verb: 'Import',
  })
}

function CheckResult({ check }: { check: ImportView }): VNode {
  const isFinished = check.state === 'finished'
  return html`<div class="results" role="region" aria-label="Result of the check">
    <h3>${isFinished ? 'Nothing was imported. An import now would do this:' : 'The check did not finish'}</h3>
    <${Fault} text=${check.error_message} />
    <${OutcomeCounts} counts=${check.stats.subscribers} />
    <${Warnings} warnings=${check.warnings} />
    <${WhyRowsFailed} summary=${check.failure_summary} />
    <${FailedRows} view=${check} />
  </div>`
}
