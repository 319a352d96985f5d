import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import type { UploadView } from '../resources/uploads/schemas.ts'
import { get, getServiceAddresses, isAbort, messageOf, useLoad } from './api.ts'
import { ask, Dialog } from './dialog.ts'
import { bytes, counted, time } from './format.ts'
import { ListField } from './list-field.ts'
import { Facts, Fault, onSubmit, Page } from './page.ts'
import { go, guardLeaving } from './router.ts'
import { isUploader, session } from './session.ts'
import { usePageStore, type Store } from './store.ts'
import { Listing, type Column } from './table.ts'
import { deleteUpload, upload } from './upload.ts'

/** What the import form uploads for itself has such names; the service deletes it by itself. */
const isOfForm = ({ filename }: UploadView): boolean => filename.startsWith('.console-')
const rowsAtOnce = 200

interface Sending {
  name: string
  sent: number
  size: number
  stop: () => void
}

interface State {
  sending: Sending | null
  fault: string | null
  /** The file whose list is asked for. */
  importing: string | null
  rows: number
}

/** The files of the upload directory. */
export function Uploads(): VNode {
  const store = usePageStore<State>(() => ({
    ...{ sending: null, fault: null, importing: null, rows: rowsAtOnce },
  }))
  const { sending, fault, importing, rows } = store.value
  const { data, error, reload } = useLoad((signal) => get<UploadView[]>('/uploads', signal), [])
  const input = useRef<HTMLInputElement>(null)
  const files = data?.filter((file) => !isOfForm(file)) ?? null
  const hidden = (data?.length ?? 0) - (files?.length ?? 0)
  const choose = html`<input
      ...${{ ref: input, type: 'file', class: 'hidden', multiple: true, tabindex: -1 }}
      aria-label="Files to upload"
      onChange=${(event: Event) => void sendAll(event.target as HTMLInputElement)}
    />
    <button
      ...${{ type: 'button', class: 'primary', disabled: sending !== null || data === null }}
      onClick=${() => input.current?.click()}
    >
      Upload
    </button>`
  const sendAll = async (chosen: HTMLInputElement) => {
    for (const file of chosen.files ?? []) {
      const name = file.name.normalize('NFC')
      const isSent = await send(
        store,
        file,
        data?.find(({ filename }) => filename === name),
      )
      if (!isSent) break
    }
    chosen.value = ''
    reload()
  }
  const remove = async (file: UploadView) => {
    const name = file.filename
    const text =
      file.size === null
        ? 'What came of it is deleted: it can’t be resumed then.'
        : 'Imports that have begun keep what they read. Those that are scheduled will fail.'
    if (!(await ask({ question: `Delete ${name}?`, text, verb: 'Delete file' }))) return
    const failure = await deleteUpload(name).then(() => null, messageOf)
    store.set({ fault: failure })
    reload()
  }
  const columns = columnsOf({
    remove: (file) => void remove(file),
    choose: (file) => store.set({ importing: file.filename }),
  })
  return html`<${Page} title="Uploads" actions=${choose}>
    ${sending !== null && html`<${Progress} ...${sending} />`}
    <${Fault} text=${fault} />
    <${Listing}
      ...${{ label: 'Uploads', columns, error }}
      rows=${files?.slice(0, rows) ?? null}
      rowKey=${({ filename }: UploadView) => filename}
      more=${(files?.length ?? 0) > rows ? () => store.set({ rows: rows + rowsAtOnce }) : null}
      empty=${`No file is here yet. Press “Upload”, or send one by FTP${isUploader() ? '.' : ', then import it.'}`}
    />
    ${
      hidden > 0 &&
      html`<p class="hint">
        ${counted(hidden, 'file')} of the import form ${hidden === 1 ? 'is' : 'are'} not shown. The service
        deletes them within 24 hours of their last use.
      </p>`
    }
    <${ByFtp} />
    ${
      importing !== null &&
      html`<${ChooseList} filename=${importing} onClose=${() => store.set({ importing: null })} />`
    }
  <//>`
}

/** Uploads one file, and resolves to whether it did. */
async function send(store: Store<State>, file: File, present: UploadView | undefined): Promise<boolean> {
  const name = file.name
  const isReplacing = present !== undefined && present.size !== null
  const question = {
    question: `Replace ${name}?`,
    text: 'There is a file of this name, which this one would replace.',
    verb: 'Replace file',
  }
  if (isReplacing && !(await ask(question))) return true
  const stopping = new AbortController()
  store.set({ fault: null })
  guardLeaving(async () => {
    const text = `${name} is not uploaded yet. What came of it stays as an unfinished upload.`
    const isLeaving = await ask({ question: 'Leave the page?', text, verb: 'Leave page' })
    if (isLeaving) stopping.abort()
    return isLeaving
  })
  const onProgress = (sent: number) =>
    store.set({ sending: { name, sent, size: file.size, stop: () => stopping.abort() } })
  onProgress(0)
  try {
    await upload({ file, name, present, signal: stopping.signal, onProgress })
    return true
  } catch (error) {
    if (!isAbort(error)) store.set({ fault: `${name}: ${messageOf(error)}` })
    return false
  } finally {
    guardLeaving(null)
    store.set({ sending: null })
  }
}

const Progress = ({ name, sent, size, stop }: Sending): VNode =>
  html`<div class="panel" role="status">
    <p>Uploading ${name}: ${bytes(sent)} of ${bytes(size)}</p>
    <progress aria-label=${`Upload of ${name}`} value=${sent} max=${Math.max(1, size)}></progress>
    <div class="buttons"><button type="button" onClick=${stop}>Stop</button></div>
  </div>`

interface Actions {
  remove: (file: UploadView) => void
  choose: (file: UploadView) => void
}

const columnsOf = ({ remove, choose }: Actions): Column<UploadView>[] => [
  {
    name: 'Name',
    sort: ({ filename }) => filename,
    cell: ({ filename }) => html`<div class="two-lines">${filename}</div>`,
  },
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
  {
    name: 'Changed',
    sort: ({ modified_at: at }) => at,
    cell: ({ modified_at: at }) => html`<span class="together">${time(at)}</span>`,
  },
  {
    name: 'Actions',
    cell: (file) =>
      html`<div class="row-actions">
        ${
          file.size !== null &&
          !isUploader() &&
          html`<button type="button" aria-label=${`Import ${file.filename}`} onClick=${() => choose(file)}>
            Import
          </button>`
        }
        <button type="button" aria-label=${`Delete ${file.filename}`} onClick=${() => remove(file)}>
          Delete
        </button>
      </div>`,
  },
]

/** Asks for the list, and opens its import form with the file. */
function ChooseList({ filename, onClose }: { filename: string; onClose: () => void }): VNode {
  const store = usePageStore<{ listId: number | null; fault: string | null }>(() => ({
    ...{ listId: null, fault: null },
  }))
  const { listId, fault } = store.value
  const submit = () => {
    if (listId === null) store.set({ fault: 'choose a list by its name' })
    else void go(`/console/lists/${listId}/import?upload=${encodeURIComponent(filename)}`)
  }
  return html`<${Dialog} name=${`Import ${filename}`} onClose=${onClose}>
    <form onSubmit=${onSubmit(submit)}>
      <${ListField}
        listId=${listId}
        onPick=${(id: number | null) => store.set({ listId: id, fault: null })}
        refuse=${({ is_remote_list: isRemote }: { is_remote_list: boolean }) =>
          isRemote ? 'files can’t be imported into a Remote List' : null}
      />
      <${Fault} text=${fault} />
      <div class="buttons">
        <button type="button" onClick=${onClose}>Close</button>
        <button class="primary">Import</button>
      </div>
    </form>
  <//>`
}

/** How to connect by FTP, where the service knows its address. */
function ByFtp(): VNode | null {
  const { data } = useLoad(getServiceAddresses, [])
  if (data === null || data.ftp === null) return null
  const folder = session.value.who?.uploads_folder ?? null
  const facts: [string, VNode | string][] = [
    ['Server', html`<code>${data.ftp}</code>`],
    ['User', html`<code>api</code>`],
    ['Password', isUploader() ? 'your API key' : 'an API key, such as one of the role uploads for a partner'],
    ...(folder === null ? [] : ([['Folder', folder]] as [string, string][])),
  ]
  return html`<section class="panel" aria-labelledby="by-ftp">
    <h2 id="by-ftp">Upload by FTP</h2>
    <${Facts} label="How to connect by FTP" facts=${facts} />
    <p class="hint">A file that broke off can be resumed here, by FTP or over HTTP.</p>
  </section>`
}
