import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { CreatedImportView, ImportView } from '../resources/subscriber-imports/schemas.ts'
import { ApiError, call, messageOf, pause, repeat, Unreachable } from './api.ts'
import { addedStatuses, countLines, ownUploadName, readSample, sampleBytes } from './chosen-file.ts'
import { followImport } from './follow.ts'
import { number, randomName } from './format.ts'
import { fieldOf, likeTargets, newFieldName, proposedTargets, type Target } from './import-columns.ts'
import { asCreation, defaultSettings, settingsLike, type Settings } from './import-settings.ts'
import { session } from './session.ts'
import { createStore, type Store } from './store.ts'
import { deleteUpload, upload } from './upload.ts'

/** An import that is being prepared: a source, how it is read, what its columns become, and the settings. */

export type Source = { kind: 'file'; file: File; name: string } | { kind: 'upload' | 'url'; name: string }

/** What a person chose of the format, as a creation names it; the rest is detected. */
export interface ChosenFormat {
  character_set?: string
  csv_field_separator?: string
  csv_has_headers?: boolean
  csv_skip_lines?: number
  date_format?: string
}

interface Check {
  view: ImportView
  /** What the added rows become; null where that isn't known. */
  statuses: Record<string, number> | null
}

export interface DraftState {
  fields: CustomFieldView[]
  source: Source | null
  /** Null where the browser can't count them, or hasn't yet. */
  lines: number | null
  /** Bytes of the file that are uploaded; null where it isn't. */
  sent: number | null
  format: ChosenFormat
  inspection: InspectionView | null
  isInspecting: boolean
  /** Why the source can't be imported, or can't be read as it was chosen. */
  refusal: string | null
  targets: Target[]
  /** The import whose mapping and settings are proposed. */
  like: ImportView | null
  settings: Settings
  check: Check | null
  /** What is being done, in words. */
  running: string | null
  fault: string | null
}

interface Input {
  list: MailingListView
  fields: CustomFieldView[]
  /** Its settings are proposed where its headers fit. `isAsked`: the address names it, so some of the headers suffice. */
  earlier: { view: ImportView; isAsked: boolean } | undefined
  isOverwriting: boolean
}

export class ImportDraft {
  readonly list: MailingListView
  readonly store: Store<DraftState>
  readonly #input: Input
  readonly #path: string
  readonly #key = session.value.key ?? ''
  /** Aborted when the source is replaced or left. */
  #source = new AbortController()
  #inspecting = new AbortController()
  /** The file's text, where it goes inline. */
  #sample: string | null = null
  #uploadName: string | null = null
  #uploaded: Promise<void> | null = null
  /** A retried creation is the same request. */
  #creation = { body: '', key: '' }

  constructor(input: Input) {
    this.list = input.list
    this.#input = input
    this.#path = `/mailing_lists/${input.list.id}/subscriber_imports`
    this.store = createStore<DraftState>({ ...this.#blank(), fields: input.fields, source: null })
  }

  #blank(): Omit<DraftState, 'fields' | 'source'> {
    return {
      lines: null,
      sent: null,
      format: {},
      inspection: null,
      isInspecting: false,
      refusal: null,
      targets: [],
      like: null,
      settings: this.#settings(defaultSettings),
      check: null,
      running: null,
      fault: null,
    }
  }

  #settings = (settings: Settings): Settings => ({
    ...settings,
    overwrite: settings.overwrite || this.#input.isOverwriting,
  })

  /** Replaces the source. The console's own upload of the one before is deleted. */
  async choose(source: Source): Promise<void> {
    this.drop()
    const { signal } = this.#source
    this.store.set({ ...this.#blank(), source, isInspecting: true })
    if (source.kind === 'file') {
      const { file } = source
      if (file.size === 0) {
        this.store.set({ isInspecting: false, refusal: 'the file is empty' })
        return
      }
      // A file that can't be read any more is refused by its sample.
      void countLines(file).then(
        (lines) => signal.aborted || this.store.set({ lines }),
        () => undefined,
      )
      const sample = await readSample(file).catch((error: unknown) => {
        if (!signal.aborted) this.#refuse(error)
      })
      if (signal.aborted || sample === undefined) return
      this.#sample = sample
      if (sample === null || source.file.size > sampleBytes) this.#startUpload(source.file)
    }
    await this.#inspect(null)
  }

  #startUpload(file: File): void {
    const { signal } = this.#source
    const name = ownUploadName(file.name, randomName())
    const onProgress = (sent: number) => signal.aborted || this.store.set({ sent })
    onProgress(0)
    this.#uploadName = name
    this.#uploaded = upload({ file, name, signal, onProgress })
    this.#uploaded.catch((error: unknown) => signal.aborted || this.#refuse(error))
  }

  /** Where the service refuses the file, nothing of it stays there. */
  #refuse(error: unknown): void {
    this.#inspecting.abort()
    this.store.set({ refusal: messageOf(error), isInspecting: false, inspection: null, sent: null })
    if (!(error instanceof Unreachable)) this.#deleteUpload()
  }

  /** Stops what goes on, and deletes the console's own upload. */
  drop({ isDocumentLeft = false } = {}): void {
    this.#source.abort()
    this.#inspecting.abort()
    this.#source = new AbortController()
    this.#deleteUpload(isDocumentLeft)
    this.#sample = null
  }

  #deleteUpload(isDocumentLeft = false): void {
    const name = this.#uploadName
    this.#uploadName = null
    this.#uploaded = null
    if (name === null) return
    // With the key that uploaded it, also after `Sign out`. What can't be deleted, the service deletes after a day.
    const remove = () => deleteUpload(name, { key: this.#key, keepalive: true }).catch(() => undefined)
    // A piece in flight has the lock for a moment, for which a document that is left can't wait.
    void (isDocumentLeft ? remove() : pause(500).then(remove))
  }

  /** A blank text is what the service detects. */
  changeFormat(changed: ChosenFormat): void {
    const format = { ...this.store.value.format, ...changed }
    const chosen = Object.entries(format).filter(([, value]) => value !== '')
    this.#change({ format: Object.fromEntries(chosen) })
    void this.#inspect('date_format' in changed ? this.#mapping() : null)
  }

  /** A field has one column: another one that had it is ignored. */
  setTarget(column: number, target: Target): void {
    const targets = this.store.value.targets.map((other, i) =>
      i === column ? target : target !== 'new' && other === target ? 'ignore' : other,
    )
    this.#change({ targets })
    void this.#inspect(this.#mapping())
  }

  setSettings(changed: Partial<Settings>): void {
    this.#change({ settings: { ...this.store.value.settings, ...changed } })
  }

  /** Drops what the earlier import proposed. */
  startAfresh(): void {
    this.#input.earlier = undefined
    this.#change({ like: null, settings: defaultSettings })
    void this.#inspect(null)
  }

  /** A check of other settings says nothing about these. */
  #change(changed: Partial<DraftState>): void {
    this.store.set({ ...changed, check: null, fault: null })
  }

  #mapping = (): (string | null)[] => this.store.value.targets.map(fieldOf)

  /** Inspects the source; without a mapping the columns are proposed anew. */
  async #inspect(mapping: (string | null)[] | null): Promise<void> {
    this.#inspecting.abort()
    this.#inspecting = new AbortController()
    const { signal } = this.#inspecting
    this.store.set({ isInspecting: true })
    const request = {
      ...(mapping === null ? {} : { column_mapping: mapping }),
      file_format: { character_set: 'auto', ...this.store.value.format },
    }
    try {
      const inspection = await this.#withSource(false, (file_source) => {
        const body = { subscriber_import: { ...request, file_source } }
        return repeat(signal, () => call<InspectionView>('POST', `${this.#path}/inspect`, body, { signal }))
      })
      this.store.set({ inspection, isInspecting: false, refusal: null })
      if (mapping === null) this.#propose(inspection)
    } catch (error) {
      if (signal.aborted) return
      // What was chosen since the file could be read can be chosen otherwise.
      if (this.store.value.inspection === null) this.#refuse(error)
      else this.store.set({ refusal: messageOf(error), isInspecting: false })
    }
  }

  #propose(inspection: InspectionView): void {
    const { earlier } = this.#input
    const { fields, like } = this.store.value
    const proposed = proposedTargets(inspection)
    const liked = earlier && likeTargets(inspection, earlier.view, fields, earlier.isAsked)
    this.store.set({ targets: liked ?? proposed })
    if (!earlier || !liked) return
    const settings = this.#settings(settingsLike(earlier.view, earlier.isAsked))
    if (like === null) this.store.set({ like: earlier.view, settings })
    if (liked.join('\n') !== proposed.join('\n')) void this.#inspect(this.#mapping())
  }

  /** Calls with the source. Where an inline body is too large, the file is uploaded first. */
  async #withSource<T>(isWhole: boolean, send: (source: Record<string, unknown>) => Promise<T>): Promise<T> {
    const { source } = this.store.value
    if (source?.kind === 'url') return send({ type: 'url', url: source.name })
    if (source?.kind !== 'file') return send({ type: 'upload_directory', filename: source?.name })
    if (this.#sample !== null && (!isWhole || source.file.size <= sampleBytes)) {
      try {
        return await send({ type: 'json', content: this.#sample })
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 413)) throw error
        this.#sample = null
        if (this.#uploaded === null) this.#startUpload(source.file)
      }
    }
    await this.#uploaded
    return send({ type: 'upload_directory', filename: this.#uploadName })
  }

  /** Makes a dry run, and shows its result unless something was changed since. */
  check(): Promise<void> {
    const { signal } = this.#source
    const { targets, settings, format, source, inspection } = this.store.value
    return this.#run(async () => {
      const { id } = await this.#create(true)
      let view: ImportView | null = null
      const onView = (next: ImportView) => {
        const { number_of_records: all, records_imported: done } = next.stats
        view = next
        this.store.set({ running: `Checking: ${number(done)} of ${all === null ? 'all' : number(all)} rows` })
      }
      await followImport(id, { onView, signal })
      if (signal.aborted || view === null || inspection === null) return
      const statuses = source?.kind === 'file' ? await addedStatuses(source.file, view, inspection) : null
      const now = this.store.value
      const isCurrent = now.targets === targets && now.settings === settings && now.format === format
      if (isCurrent) this.store.set({ check: { view, statuses } })
    })
  }

  /** Makes the new fields and the import. Resolves to its id, or null where that failed. */
  async import(): Promise<number | null> {
    let id: number | null = null
    await this.#run(async () => {
      await this.#uploaded
      await this.#createFields()
      ;({ id } = await this.#create(false))
      // The import has the upload now.
      this.#uploadName = null
    })
    return id
  }

  async #run(work: () => Promise<void>): Promise<void> {
    const { signal } = this.#source
    const running = isUploading(this.store.value) ? 'This waits for the upload' : 'Sending the request'
    this.store.set({ running, fault: null })
    await work().catch((error: unknown) => signal.aborted || this.store.set({ fault: messageOf(error) }))
    this.store.set({ running: null })
  }

  async #createFields(): Promise<void> {
    const { inspection } = this.store.value
    for (const [column, target] of this.store.value.targets.entries()) {
      if (target !== 'new' || inspection === null) continue
      const body = { custom_field: { name: newFieldName(inspection, column), field_type: 'text' } }
      const made = await call<CustomFieldView>('POST', `/mailing_lists/${this.list.id}/custom_fields`, body)
      const { fields, targets } = this.store.value
      this.store.set({ fields: [...fields, made], targets: targets.with(column, `field:${made.name}`) })
    }
  }

  #create(isCheck: boolean): Promise<CreatedImportView> {
    const { source, format, inspection, settings } = this.store.value
    const { csv_field_separator, csv_field_enclosure, csv_field_escape, date_format } = inspection!
    const { csv_has_headers, csv_skip_lines } = inspection!
    const mapping = this.#mapping()
    const file_format = {
      character_set: 'auto',
      csv_field_separator,
      csv_field_enclosure,
      csv_field_escape,
      csv_has_headers,
      csv_skip_lines,
      ...(date_format === null ? {} : { date_format }),
      ...format,
    }
    return this.#withSource(true, (place) => {
      const isOwn = source?.kind === 'file' && place['type'] === 'upload_directory'
      const file_source = {
        ...place,
        ...(source?.kind === 'file' ? { display_name: shownName(source.name) } : {}),
        ...(isOwn && !isCheck ? { delete_after: true } : {}),
      }
      const subscriber_import = {
        ...asCreation(settings, mapping),
        ...(isCheck ? { dry_run: true, begins_at: 'now' } : {}),
        column_mapping: mapping,
        file_format,
        file_source,
      }
      return this.#post({ subscriber_import })
    })
  }

  /** The same request again has the same key, as long as it isn't known what became of it. */
  async #post(request: unknown): Promise<CreatedImportView> {
    const body = JSON.stringify(request)
    if (this.#creation.body !== body) this.#creation = { body, key: randomName() }
    try {
      const headers = { 'idempotency-key': this.#creation.key }
      const created = await call<CreatedImportView>('POST', this.#path, request, { headers })
      this.#creation.body = ''
      return created
    } catch (error) {
      // The import may exist, and need the upload.
      if (error instanceof Unreachable)
        this.#source.signal.addEventListener('abort', () => (this.#uploadName = null))
      throw error
    }
  }
}

export const isUploading = ({ source, sent }: DraftState): boolean =>
  source?.kind === 'file' && sent !== null && sent < source.file.size

const shownName = (name: string): string => name.replaceAll(/\p{Cc}/gu, '_').slice(0, 255)
