import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { get, useLoad } from './api.ts'
import type { PageProps } from './app.ts'
import { CheckAndImport } from './import-check.ts'
import { ColumnsTable } from './import-columns-table.ts'
import { ImportDraft } from './import-draft.ts'
import { FormatPanel } from './import-format-panel.ts'
import { OptionsPanel } from './import-options-panel.ts'
import { DropZone, SourcePanel } from './import-source-panel.ts'
import { ask } from './dialog.ts'
import { time } from './format.ts'
import { Loading, Page } from './page.ts'
import { address, guardLeaving } from './router.ts'
import { useStore } from './store.ts'

/** Prepares an import: a source, what its columns become, options, a check, and the import. */
export function ImportForm({ ids: [id = 0] }: PageProps): VNode {
  const { data: draft, error } = useLoad((signal) => loadDraft(id, signal), [])
  const title = draft === null ? null : `Import into ${draft.store.value.list.name}`
  if (draft === null) return html`<${Page} title=${error === null ? null : 'Import a file'} error=${error} />`
  if (draft.store.value.list.is_remote_list)
    return html`<${Page} title=${title}><p class="notice">This is a Remote List: nothing is imported into it here.</p><//>`
  return html`<${Page} title=${title} above=${html`<a href=${`/console/lists/${id}`}>${draft.store.value.list.name}</a>`}>
    <${Form} draft=${draft} />
  <//>`
}

/** The list, its fields and an earlier import whose settings may fit: the address names it, or it is the list's last one. */
async function loadDraft(id: number, signal: AbortSignal): Promise<ImportDraft> {
  const { query } = address.value
  const like = query.get('like')
  const imports = `/mailing_lists/${id}/subscriber_imports?scope=finished&state=finished&order=created&view=full&per_page=20`
  const [list, fields, last] = await Promise.all([
    get<MailingListView>(`/mailing_lists/${id}`, signal),
    get<CustomFieldView[]>(`/mailing_lists/${id}/custom_fields`, signal),
    // A Remote List refuses this.
    like === null
      ? get<ImportView[]>(imports, signal).catch(() => [])
      : [await get<ImportView>(`/subscriber_imports/${like}`, signal)],
  ])
  const view = last.find(({ dry_run: isCheck }) => like !== null || !isCheck)
  return new ImportDraft({
    ...{ list, fields, isOverwriting: query.get('overwrite') === 'true' },
    earlier: view === undefined ? null : { view, isAsked: like !== null },
  })
}

function Form({ draft }: { draft: ImportDraft }): VNode {
  const state = useStore(draft.store)
  const [isLeft, setLeft] = useState(false)
  useEffect(() => {
    const upload = address.value.query.get('upload')
    if (upload !== null) void draft.choose({ kind: 'upload', name: upload })
    return () => draft.drop()
  }, [])
  const isAtStake = state.source?.kind === 'file' && state.refusal === null && !isLeft
  useEffect(() => {
    guardLeaving(isAtStake ? askToLeave : null)
    return () => guardLeaving(null)
  }, [isAtStake])
  const { inspection, refusal, like } = state
  return html`<${DropZone} draft=${draft}>
    <${SourcePanel} ...${{ draft, state }} />
    ${state.isInspecting && inspection === null && refusal === null && html`<${Loading} what="the beginning of the file" />`}
    ${
      inspection !== null &&
      refusal === null &&
      html`
        <${FormatPanel} ...${{ draft, state, inspection }} />
        ${
          like !== null &&
          html`<div class="notice calm" role="status">
            <p>
              The columns and options are those of <a href=${`/console/imports/${like.id}`}>import ${like.id}</a>, made
              ${' '}${time(like.created_at)}.
            </p>
            <button type="button" onClick=${() => draft.startAfresh()}>Start afresh</button>
          </div>`
        }
        <${ColumnsTable} ...${{ draft, state, inspection }} />
        <${OptionsPanel} ...${{ draft, state }} />
        <${CheckAndImport} ...${{ draft, state, inspection }} onImported=${() => setLeft(true)} />
      `
    }
  <//>`
}

const askToLeave = (): Promise<boolean> =>
  ask({
    question: 'Leave this page?',
    text: 'Nothing was imported yet. The file that you chose and what is uploaded of it are dropped.',
    verb: 'Leave page',
  })
