import { useRef, useState } from 'preact/hooks'
import { html } from 'htm/preact'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { get, messageOf, useAction, useLoad } from './api.ts'
import { ask, FormDialog } from './dialog.ts'
import { bytes, counted } from './format.ts'
import { ListField } from './list-field.ts'
import { Facts, Fault, Page } from './page.ts'
import { go, guardLeaving } from './router.ts'
import { isUploader, session } from './session.ts'
import { usePageStore } from './store.ts'
import { table, when, wide, type Column } from './table.ts'
import { deleteUpload, upload } from './upload.ts'

const rowsAtOnce = 200

interface Sending {
  name: string
  sent: number
  size: number
  stop: () => void
}

/** The files of the upload directory. */
export function Uploads() {
  const store = usePageStore({
    sending: null as Sending | null,
    /** The file whose list is asked for. */
    importing: null as string | null,
    rows: rowsAtOnce,
  })
  const { sending, importing, rows } = store.value
  const { data, error, reload } = useLoad((signal) => get<UploadView[]>('/uploads', signal), [])
  const { fault, run } = useAction()
  const input = useRef<HTMLInputElement>(null)
  // What the import form uploads for itself has such names; the service deletes it by itself.
  const files = data?.filter(({ filename }) => !filename.startsWith('.console-')) ?? []
  const hidden = (data?.length ?? 0) - files.length

  /** Uploads one file. */
  const send = async (file: File, name: string) => {
    const present = data?.find(({ filename }) => filename === name)
    const question = `Replace ${name}?`
    const text = 'There is a file of this name, which this one would replace.'
    const isReplacing = present !== undefined && present.size !== null
    if (isReplacing && !(await ask({ question, text, verb: 'Replace file' }))) return
    const stopping = new AbortController()
    const { signal } = stopping
    guardLeaving(async () => {
      const text = `${name} is not uploaded yet. What came of it stays as an unfinished upload.`
      const isLeaving = await ask({ question: 'Leave the page?', text, verb: 'Leave page' })
      if (isLeaving) stopping.abort()
      return isLeaving
    })
    const onProgress = (sent: number) =>
      store.set({ sending: { name, sent, size: file.size, stop: () => stopping.abort() } })
    onProgress(0)
    await upload({ file, name, present, signal, onProgress }).catch((failure: unknown) => {
      throw new Error(signal.aborted ? `${name} was stopped` : `${name}: ${messageOf(failure)}`)
    })
  }
  const sendAll = async () => {
    try {
      for (const file of input.current?.files ?? []) await send(file, file.name.normalize('NFC'))
    } finally {
      guardLeaving(null)
      store.set({ sending: null })
      if (input.current !== null) input.current.value = ''
      reload()
    }
  }
  const remove = async ({ filename: name, size }: UploadView) => {
    const text =
      size === null
        ? 'What came of it is deleted: it can’t be resumed then.'
        : 'Imports that have begun keep what they read. Those that are scheduled will fail.'
    if (!(await ask({ question: `Delete ${name}?`, text, verb: 'Delete file' }))) return
    run(() => deleteUpload(name).finally(reload))
  }
  const button = (verb: string, { filename }: UploadView, press: () => void) =>
    html`<button type="button" aria-label=${`${verb} ${filename}`} onClick=${press}>${verb}</button>`
  const actions = (file: UploadView) =>
    html`<div class="row-actions">
      ${file.size !== null && !isUploader() && button('Import', file, () => store.set({ importing: file.filename }))}
      ${button('Delete', file, () => void remove(file))}
    </div>`
  const isWaiting = sending !== null || data === null
  const choose = html`<input ref=${input} type="file" class="hidden" multiple tabindex="-1" aria-label="Files to upload" onChange=${() => run(sendAll)} />
    <button type="button" class="primary" disabled=${isWaiting} onClick=${() => input.current?.click()}>Upload</button>`
  return html`<${Page} title="Uploads" actions=${choose}>
    ${sending !== null && html`<${Progress} ...${sending} />`}
    <${Fault} text=${fault} />
    ${table({
      label: 'Uploads',
      columns: [...columns, { name: 'Actions', cell: actions }],
      error,
      rows: data && files.slice(0, rows),
      rowKey: ({ filename }) => filename,
      more: files.length > rows ? () => store.set({ rows: rows + rowsAtOnce }) : null,
      empty: `No file is here yet. Press “Upload”, or send one by FTP${isUploader() ? '.' : ', then import it.'}`,
    })}
    ${
      hidden > 0 &&
      html`<p class="hint">
        ${counted(hidden, 'file')} of the import form ${hidden === 1 ? 'is' : 'are'} not shown. The service
        deletes them within 24 hours of their last use.
      </p>`
    }
    <${ByFtp} />
    ${importing !== null && html`<${ChooseList} filename=${importing} onClose=${() => store.set({ importing: null })} />`}
  <//>`
}

const Progress = ({ name, sent, size, stop }: Sending) =>
  html`<div class="panel" role="status">
    <p>Uploading ${name}: ${bytes(sent)} of ${bytes(size)}</p>
    <progress aria-label=${`Upload of ${name}`} value=${sent} max=${Math.max(1, size)}></progress>
    <div class="buttons"><button type="button" onClick=${stop}>Stop</button></div>
  </div>`

const columns: Column<UploadView>[] = [
  { name: 'Name', sort: ({ filename }) => filename, cell: ({ filename }) => wide(filename) },
  {
    name: 'Size',
    isNumber: true,
    sort: ({ size }) => size,
    cell: ({ size }) => (size === null ? '–' : bytes(size)),
  },
  {
    name: 'Unfinished',
    sort: ({ unfinished_size: size }) => size,
    cell: ({ unfinished_size: size }) =>
      size === null ? '' : html`<span class="state warn">${bytes(size)} came</span>`,
  },
  { name: 'Changed', sort: ({ modified_at: at }) => at, cell: ({ modified_at: at }) => when(at) },
]

/** Asks for the list, and opens its import form with the file. */
function ChooseList({ filename, onClose }: { filename: string; onClose: () => void }) {
  const [list, setList] = useState({ id: null as number | null, isMissed: false })
  const submit = () => {
    if (list.id === null) setList({ id: null, isMissed: true })
    else void go(`/console/lists/${list.id}/import?upload=${encodeURIComponent(filename)}`)
  }
  return html`<${FormDialog} name=${`Import ${filename}`} verb="Import" onClose=${onClose} run=${submit}>
    <${ListField} listId=${list.id} isLocal onPick=${(id: number | null) => setList({ id, isMissed: false })} />
    <${Fault} text=${list.isMissed ? 'choose a list by its name' : null} />
  <//>`
}

/** How to connect by FTP, where the service knows its address. */
function ByFtp() {
  const { data } = useLoad(async (signal) => {
    const response = await fetch('/', {
      signal,
      credentials: 'omit',
      headers: { accept: 'application/json' },
    })
    return (await response.json()) as { ftp: string | null }
  }, [])
  if (data === null || data.ftp === null) return null
  const folder = session.value.who?.uploads_folder ?? ''
  const facts = [
    ['Server', html`<code>${data.ftp}</code>`],
    ['User', html`<code>api</code>`],
    ['Password', isUploader() ? 'your API key' : 'an API key, such as one of the role uploads for a partner'],
    ['Folder', folder],
  ]
  return html`<section class="panel" aria-labelledby="by-ftp">
    <h2 id="by-ftp">Upload by FTP</h2>
    <${Facts} label="How to connect by FTP" facts=${facts.filter(([, value]) => value !== '')} />
    <p class="hint">A file that broke off can be resumed here, by FTP or over HTTP.</p>
  </section>`
}
