import type { ComponentChildren, VNode } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { useLoad, get } from './api.ts'
import { bytes, number, percent, time } from './format.ts'
import type { DraftState, ImportDraft } from './import-draft.ts'
import { Fault, Field, Loading, onSubmit, Select, valueOf } from './page.ts'

/** A file that is dropped on the page is chosen. */
export function DropZone({ draft, children }: { draft: ImportDraft; children: ComponentChildren }): VNode {
  const [isOver, setOver] = useState(false)
  const over = (event: DragEvent) => {
    event.preventDefault()
    setOver(true)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    const file = event.dataTransfer?.files[0]
    if (file !== undefined) void draft.choose({ kind: 'file', file, name: file.name })
  }
  return html`<div
    class=${isOver ? 'drop over' : 'drop'}
    onDragOver=${over}
    onDragLeave=${() => setOver(false)}
    onDrop=${drop}
  >${children}</div>`
}

type Way = 'file' | 'upload' | 'url'

/** Where the file comes from; once one is chosen, what it is. */
export function SourcePanel({ draft, state }: { draft: ImportDraft; state: DraftState }): VNode {
  const [way, setWay] = useState<Way>('file')
  const { source, refusal } = state
  const input = useRef<HTMLInputElement>(null)
  const chooseFile = () => {
    const file = input.current?.files?.[0]
    if (file !== undefined) void draft.choose({ kind: 'file', file, name: file.name })
    // The same file can be chosen again after it was corrected.
    if (input.current !== null) input.current.value = ''
  }
  const wayButton = (to: Way, name: string) =>
    html`<button type="button" aria-expanded=${way === to} onClick=${() => setWay(way === to ? 'file' : to)}>${name}</button>`
  return html`<section class="panel">
    <h2>File</h2>
    ${source !== null && html`<${ChosenSource} ...${{ state }} />`}
    <${Fault} text=${refusal} />
    <div class="sources">
      <label class=${source === null ? 'button primary file-button' : 'button file-button'}>
        <input ref=${input} type="file" class="hidden" onChange=${chooseFile} />
        ${source === null ? 'Choose a file' : 'Choose another file'}
      </label>
      ${wayButton('upload', 'From the upload directory')} ${wayButton('url', 'From a URL')}
    </div>
    ${source === null && way === 'file' && html`<p class="hint">Or drop a file on this page. CSV or text, also packed as zip or gzip.</p>`}
    ${way === 'upload' && html`<${UploadChoice} onPick=${(name: string) => void draft.choose({ kind: 'upload', name })} />`}
    ${way === 'url' && html`<${UrlChoice} onPick=${(name: string) => void draft.choose({ kind: 'url', name })} />`}
  </section>`
}

function ChosenSource({ state: { source, lines, upload } }: { state: DraftState }): VNode {
  const facts = [
    ...(source?.kind === 'file' ? [bytes(source.file.size)] : []),
    ...(lines === null ? [] : [`${number(lines)} lines`]),
  ]
  const share = upload === null ? 1 : upload.total === 0 ? 1 : upload.sent / upload.total
  return html`<div>
    <p class="file"><strong>${source?.name}</strong> <span class="hint">${facts.join(' · ')}</span></p>
    ${
      upload !== null &&
      html`<div class="progress">
        <progress aria-label="Upload" max="1" value=${share} />
        <p class="hint" role="status">
          ${share === 1 ? 'Uploaded' : upload.isWaiting ? `The upload was interrupted at ${percent(share)}, and is tried again` : `Uploading: ${percent(share)} of ${bytes(upload.total)}`}
        </p>
      </div>`
    }
  </div>`
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
  const options = [
    ['', 'Choose…'],
    ...files.map(({ filename, size, modified_at: at }) => [
      filename,
      `${filename} (${bytes(size ?? 0)}, ${time(at)})`,
    ]),
  ]
  return html`<form class="filters" onSubmit=${onSubmit(() => name !== '' && onPick(name))}>
    <${Select} label="File in the upload directory" ...${{ options }} value=${name} onPick=${setName} />
    <button disabled=${name === ''}>Use this file</button>
  </form>`
}

function UrlChoice({ onPick }: { onPick: (url: string) => void }): VNode {
  const [url, setUrl] = useState('')
  return html`<form class="filters" onSubmit=${onSubmit(() => url.trim() !== '' && onPick(url.trim()))}>
    <${Field} label="URL" type="url" placeholder="https://" value=${url} hint="http, https, ftp or ftps; the service fetches it" onInput=${(event: Event) => setUrl(valueOf(event))} />
    <button disabled=${url.trim() === ''}>Use this URL</button>
  </form>`
}
