import { useEffect, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { SubscriberCountsView } from '../resources/subscriber-counts/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, useLoad } from './api.ts'
import type { PageProps } from './app.ts'
import { OutcomeCounts, statusName } from './counts.ts'
import { ask } from './dialog.ts'
import { FailedRows, WhyRowsFailed } from './failures.ts'
import { number, time } from './format.ts'
import { fieldOf, hasAmbiguousDates, saysConsent } from './import-columns.ts'
import { ImportDraft, type DraftState } from './import-draft.ts'
import { SourcePanel } from './import-source.ts'
import { ColumnsPanel, FormatPanel, OptionsPanel, type StepProps } from './import-steps.ts'
import { Fault, Loading, Page, Warnings } from './page.ts'
import { address, go, guardLeaving } from './router.ts'
import { useStore } from './store.ts'

/** Prepares an import: a source, what its columns become, options, a check, and the import. */
export function ImportForm({ ids: [id = 0] }: PageProps) {
  const { data: draft, error } = useLoad((signal) => loadDraft(id, signal), [])
  if (draft === null) return html`<${Page} title=${error && 'Import a file'} error=${error} />`
  const { name, is_remote_list: isRemote } = draft.list
  const above = html`<a href=${`/console/lists/${id}`}>${name}</a>`
  return html`<${Page} title=${`Import into ${name}`} above=${above}>
    ${isRemote ? html`<p class="notice">This is a Remote List: nothing is imported into it here.</p>` : html`<${Form} draft=${draft} />`}
  <//>`
}

/** The list, its fields and an earlier import whose settings may fit: the address names it, or it is the list's last one. */
async function loadDraft(id: number, signal: AbortSignal): Promise<ImportDraft> {
  const { query } = address.value
  const like = query.get('like')
  const last = `/mailing_lists/${id}/subscriber_imports?scope=finished&state=finished&order=created&view=full&per_page=20`
  const [list, fields, earlier] = await Promise.all([
    get<MailingListView>(`/mailing_lists/${id}`, signal),
    get<CustomFieldView[]>(`/mailing_lists/${id}/custom_fields`, signal),
    // A Remote List has no imports.
    like === null
      ? get<ImportView[]>(last, signal).catch(() => [])
      : get<ImportView>(`/subscriber_imports/${like}`, signal).then((view) => [view]),
  ])
  const view = earlier.find(({ dry_run: isCheck }) => like !== null || !isCheck)
  const isOverwriting = query.get('overwrite') === 'true'
  return new ImportDraft({ list, fields, isOverwriting, earlier: view && { view, isAsked: like !== null } })
}

function Form({ draft }: { draft: ImportDraft }) {
  const state = useStore(draft.store)
  const [isImported, setImported] = useState(false)
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    const name = address.value.query.get('upload')
    if (name !== null) void draft.choose({ kind: 'upload', name })
    // A document that the browser keeps may be shown again.
    const onHide = ({ persisted }: PageTransitionEvent) => persisted || draft.drop({ isDocumentLeft: true })
    addEventListener('pagehide', onHide)
    return () => {
      removeEventListener('pagehide', onHide)
      draft.drop()
    }
  }, [])
  const isRefused = state.refusal !== null && state.inspection === null
  const isAtStake = state.source?.kind === 'file' && !isRefused && !isImported
  useEffect(() => {
    guardLeaving(isAtStake ? askToLeave : null)
    return () => guardLeaving(null)
  }, [isAtStake])
  useEffect(() => onDrop(setOver, (file) => void draft.choose({ kind: 'file', file, name: file.name })), [])
  const { inspection, isInspecting } = state
  return html`<div class=${isOver ? 'drop over' : 'drop'}>
    <${SourcePanel} ...${{ draft, state }} />
    ${
      inspection !== null
        ? html`<${Steps} ...${{ draft, state, inspection }} onImported=${() => setImported(true)} />`
        : isInspecting && html`<${Loading} what="the beginning of the file" />`
    }
  </div>`
}

/** A file that is dropped anywhere on the page is chosen; by itself a browser would show it instead of the page. */
function onDrop(setOver: (isOver: boolean) => void, choose: (file: File) => void) {
  const drag = (event: DragEvent) => {
    event.preventDefault()
    setOver(event.type === 'dragover')
    const file = event.type === 'drop' ? event.dataTransfer?.files[0] : undefined
    if (file !== undefined) choose(file)
  }
  const events = ['dragover', 'dragleave', 'drop'] as const
  for (const name of events) document.addEventListener(name, drag)
  return () => events.forEach((name) => document.removeEventListener(name, drag))
}

function Steps(props: StepProps & { onImported: () => void }) {
  const { like } = props.state
  return html`<${FormatPanel} ...${props} />
    ${
      like !== null &&
      html`<div class="notice calm" role="status">
        <p>
          The columns and options are those of <a href=${`/console/imports/${like.id}`}>import ${like.id}</a>, made${' '}
          ${time(like.created_at)}.
        </p>
        <button type="button" onClick=${() => props.draft.startAfresh()}>Start afresh</button>
      </div>`
    }
    <${ColumnsPanel} ...${props} />
    <${OptionsPanel} ...${props} />
    <${CheckAndImport} ...${props} />`
}

const askToLeave = (): Promise<boolean> => {
  const text = 'Nothing was imported yet. The file that you chose and what is uploaded of it are dropped.'
  return ask({ question: 'Leave this page?', text, verb: 'Leave page' })
}

/** The last step: a dry run with its result, and the import itself. */
function CheckAndImport(props: StepProps & { onImported: () => void }) {
  const { draft, state, onImported } = props
  const { check, running, fault } = state
  const missing = whatIsMissing(props)
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
function whatIsMissing({ state, inspection }: StepProps): string | null {
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

type FinishedCheck = NonNullable<DraftState['check']>

/** What the import will do, in one sentence. */
function outlook(check: FinishedCheck, state: DraftState): string {
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

function newOnes({ view, statuses }: FinishedCheck, { targets, settings }: DraftState): string {
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

function CheckResult({ check }: { check: ImportView }) {
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
