import type { VNode } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { connection, get, useLoad } from './api.ts'
import { bytes, counted, percent, time } from './format.ts'
import { isUploading, type DraftState, type ImportDraft } from './import-draft.ts'
import { Fault, Field, Loading, onSubmit, Select, valueOf } from './page.ts'
import { useStore } from './store.ts'

/** Where the file comes from; once one is chosen, what it is. */
export function SourcePanel({ draft, state }: { draft: ImportDraft; state: DraftState }): VNode {
  const [way, setWay] = useState<'upload' | 'url' | null>(null)
  const input = useRef<HTMLInputElement>(null)
  const chooseFile = () => {
    const file = input.current?.files?.[0]
    if (file !== undefined) void draft.choose({ kind: 'file', file, name: file.name })
    // The same file can be chosen again after it was corrected.
    if (input.current !== null) input.current.value = ''
  }
  const open = (to: 'upload' | 'url', name: string) =>
    html`<button type="button" aria-expanded=${way === to} onClick=${() => setWay(way === to ? null : to)}>${name}</button>`
  const isFirst = state.source === null
  return html`<section class="panel">
    <h2>File</h2>
    ${!isFirst && html`<${ChosenSource} ...${{ state }} />`}
    ${state.inspection === null && html`<${Fault} text=${state.refusal} />`}
    <div class="actions">
      <label class=${`button file-button ${isFirst ? 'primary' : ''}`}>
        <input ref=${input} type="file" class="hidden" onChange=${chooseFile} /> Choose a file
      </label>
      ${open('upload', 'From the upload directory')} ${open('url', 'From a URL')}
    </div>
    ${isFirst && html`<p class="hint">Or drop a file on this page. CSV or text, also packed as zip or gzip.</p>`}
    ${way === 'upload' && html`<${UploadChoice} onPick=${(name: string) => void draft.choose({ kind: 'upload', name })} />`}
    ${way === 'url' && html`<${UrlChoice} onPick=${(name: string) => void draft.choose({ kind: 'url', name })} />`}
  </section>`
}

function ChosenSource({ state }: { state: DraftState }): VNode {
  const { source, lines, sent } = state
  const { isLost } = useStore(connection)
  const size = source?.kind === 'file' ? source.file.size : 0
  const share = sent === null || size === 0 ? 1 : sent / size
  const facts = [...(size === 0 ? [] : [bytes(size)]), ...(lines === null ? [] : [counted(lines, 'line')])]
  const progress = `${isLost ? 'The upload was interrupted, and is tried again' : 'Uploading'}: ${percent(share)} of ${bytes(size)}`
  return html`<p class="file"><strong>${source?.name}</strong> <span class="hint">${facts.join(' · ')}</span></p>
    ${
      sent !== null &&
      html`<div class="progress">
        <progress aria-label="Upload" max="1" value=${share} />
        <p class="hint" role="status">${isUploading(state) ? progress : 'Uploaded'}</p>
      </div>`
    }`
}

function UploadChoice({ onPick }: { onPick: (name: string) => void }): VNode {
  const { data, error } = useLoad<UploadView[]>((signal) => get('/uploads', signal), [])
  const [name, setName] = useState('')
  if (data === null)
    return error === null
      ? html`<${Loading} what="the upload directory" />`
      : html`<${Fault} text=${error} />`
  const files = data.filter(({ filename, size }) => size !== null && !filename.startsWith('.console-'))
  if (files.length === 0) return html`<p class="hint">The upload directory has no finished file.</p>`
  const shown = ({ filename, size, modified_at: at }: UploadView) => [
    filename,
    `${filename} (${bytes(size ?? 0)}, ${time(at)})`,
  ]
  return html`<form class="filters" onSubmit=${onSubmit(() => onPick(name))}>
    <${Select} label="File in the upload directory" value=${name} onPick=${setName} options=${[['', 'Choose…'], ...files.map(shown)]} />
    <button disabled=${name === ''}>Use this file</button>
  </form>`
}

function UrlChoice({ onPick }: { onPick: (url: string) => void }): VNode {
  const [url, setUrl] = useState('')
  return html`<form class="filters" onSubmit=${onSubmit(() => onPick(url.trim()))}>
    <${Field}
      ...${{ label: 'URL', type: 'url', placeholder: 'https://', value: url }}
      hint="http, https, ftp or ftps; the service fetches it"
      onInput=${(event: Event) => setUrl(valueOf(event))}
    />
    <button disabled=${url.trim() === ''}>Use this URL</button>
  </form>`
}
