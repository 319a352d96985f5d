import { useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { connection, get, useLoad } from './api.ts'
import { bytes, counted, percent, time } from './format.ts'
import { isUploading, type DraftState, type ImportDraft } from './import-draft.ts'
import { Fault, Field, Loading, onSubmit } from './page.ts'
import { useStore } from './store.ts'

/** Where the file comes from; once one is chosen, what it is. */
export function SourcePanel({ draft, state }: { draft: ImportDraft; state: DraftState }) {
  const [way, setWay] = useState<'upload' | 'url' | null>(null)
  const chooseFile = ({ target }: { target: HTMLInputElement }) => {
    const file = target.files?.[0]
    if (file !== undefined) void draft.choose({ kind: 'file', file, name: file.name })
    // The same file can be chosen again after it was corrected.
    target.value = ''
  }
  const open = (to: 'upload' | 'url', name: string) =>
    html`<button type="button" aria-expanded=${way === to} onClick=${() => setWay(way === to ? null : to)}>${name}</button>`
  const isFirst = state.source === null
  const onPick = (name: string) => void (way !== null && draft.choose({ kind: way, name }))
  return html`<section class="panel">
    <h2>File</h2>
    ${!isFirst && html`<${ChosenSource} state=${state} />`}
    ${state.inspection === null && html`<${Fault} text=${state.refusal} />`}
    <div class="actions">
      <label class=${`button file-button ${isFirst ? 'primary' : ''}`}>
        <input type="file" class="hidden" onChange=${chooseFile} /> Choose a file
      </label>
      ${open('upload', 'From the upload directory')} ${open('url', 'From a URL')}
    </div>
    ${isFirst && html`<p class="hint">Or drop a file on this page. CSV or text, also packed as zip or gzip.</p>`}
    ${way === 'upload' && html`<${UploadChoice} onPick=${onPick} />`}
    ${way === 'url' && html`<${UrlChoice} onPick=${onPick} />`}
  </section>`
}

function ChosenSource({ state }: { state: DraftState }) {
  const { source, lines, sent } = state
  const { isLost } = useStore(connection)
  const size = source?.kind === 'file' ? source.file.size : 0
  const share = sent === null || size === 0 ? 1 : sent / size
  const facts = [size > 0 && bytes(size), lines !== null && counted(lines, 'line')].filter(Boolean)
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

interface ChoiceProps {
  onPick: (name: string) => void
}

function UploadChoice({ onPick }: ChoiceProps) {
  const { data, error } = useLoad<UploadView[]>((signal) => get('/uploads', signal), [])
  const [name, setName] = useState('')
  if (data === null) return html`<${Loading} what="the upload directory" error=${error} />`
  const files = data.filter(({ filename, size }) => size !== null && !filename.startsWith('.console-'))
  if (files.length === 0) return html`<p class="hint">The upload directory has no finished file.</p>`
  const options = files.map(({ filename, size, modified_at: at }) => {
    return [filename, `${filename} (${bytes(size ?? 0)}, ${time(at)})`]
  })
  return html`<form class="filters" onSubmit=${onSubmit(() => onPick(name))}>
    <${Field} label="File in the upload directory" required value=${name} onPick=${setName} options=${[['', 'Choose…'], ...options]} />
    <button>Use this file</button>
  </form>`
}

function UrlChoice({ onPick }: ChoiceProps) {
  const [url, setUrl] = useState('')
  return html`<form class="filters" onSubmit=${onSubmit(() => onPick(url.trim()))}>
    <${Field}
      label="URL"
      type="url"
      required
      placeholder="https://"
      value=${url}
      hint="http, https, ftp or ftps; the service fetches it"
      onPick=${setUrl}
    />
    <button>Use this URL</button>
  </form>`
}
