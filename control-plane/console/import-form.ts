import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, useLoad } from './api.ts'
import type { PageProps } from './app.ts'
import { ask } from './dialog.ts'
import { time } from './format.ts'
import { CheckAndImport } from './import-check.ts'
import { ImportDraft } from './import-draft.ts'
import { SourcePanel } from './import-source.ts'
import { ColumnsPanel, FormatPanel, OptionsPanel } from './import-steps.ts'
import { Loading, Page } from './page.ts'
import { address, guardLeaving } from './router.ts'
import { useStore } from './store.ts'

/** Prepares an import: a source, what its columns become, options, a check, and the import. */
export function ImportForm({ ids: [id = 0] }: PageProps): VNode {
  const { data: draft, error } = useLoad((signal) => loadDraft(id, signal), [])
  if (draft === null) return html`<${Page} title=${error === null ? null : 'Import a file'} error=${error} />`
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
  return new ImportDraft({
    list,
    fields,
    isOverwriting,
    earlier: view === undefined ? null : { view, isAsked: like !== null },
  })
}

function Form({ draft }: { draft: ImportDraft }): VNode {
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
  useEffect(
    () => onDrop({ setOver, choose: (file) => void draft.choose({ kind: 'file', file, name: file.name }) }),
    [],
  )
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
function onDrop({ setOver, choose }: { setOver: (isOver: boolean) => void; choose: (file: File) => void }) {
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

function Steps(props: Parameters<typeof CheckAndImport>[0]): VNode {
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

const askToLeave = (): Promise<boolean> =>
  ask({
    question: 'Leave this page?',
    text: 'Nothing was imported yet. The file that you chose and what is uploaded of it are dropped.',
    verb: 'Leave page',
  })
