import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { CreatedImportView, ImportView } from '../resources/subscriber-imports/schemas.ts'
import { ApiError, call, isAbort, messageOf, pause, Unreachable } from './api.ts'
import { countLines, ownUploadName, readSample, sampleBytes } from './chosen-file.ts'
import { deleteUpload, uploadFile, type UploadProgress } from './file-upload.ts'
import { followImport } from './follow.ts'
import { randomName } from './format.ts'
import { likeTargets, newFieldName, proposedTargets, targetName, type Target } from './import-columns.ts'
import { creationOptions, defaultOptions, optionsLike, type ImportOptions } from './import-options.ts'
import { createStore, type Store } from './store.ts'

/** An import that is being prepared: a source, how it is read, what its columns become, and the options. */

export type Source =
  | { kind: 'file'; file: File; name: string }
  | { kind: 'upload'; name: string }
  | { kind: 'url'; name: string }

/** What a person chose of the format; blank is what the service detects. */
export interface ChosenFormat {
  characterSet: string
  separator: string
  hasHeader: boolean | null
  skippedLines: number | null
  dates: '' | 'mdy' | 'dmy'
}

const detectAll: ChosenFormat = {
  ...{ characterSet: '', separator: '', hasHeader: null, skippedLines: null, dates: '' },
}

export interface DraftState {
  list: MailingListView
  fields: CustomFieldView[]
  source: Source | null
  /** Null where the browser can't count them, or hasn't yet. */
  lines: number | null
  upload: UploadProgress | null
  format: ChosenFormat
  inspection: InspectionView | null
  isInspecting: boolean
  /** Why the source can't be imported. */
  refusal: string | null
  targets: Target[]
  /** The import whose mapping and options are proposed. */
  like: ImportView | null
  options: ImportOptions
  check: ImportView | null
  /** What is being done, in words. */
  running: string | null
  fault: string | null
}

interface DraftInput {
  list: MailingListView
  fields: CustomFieldView[]
  /** Imports whose settings may be proposed; `isAsked`: one that the address names, of which part of the headers suffices. */
  earlier: { view: ImportView; isAsked: boolean } | null
  isOverwriting: boolean
}

export class ImportDraft {
  readonly store: Store<DraftState>
  readonly #input: DraftInput
  /** Aborted when the source is replaced or left. */
  #source = new AbortController()
  #inspecting = new AbortController()
  /** The source's text, where it is inspected or sent inline. */
  #sample: string | null = null
  #uploadName: string | null = null
  #uploaded: Promise<void> | null = null
  /** A retried creation is the same request. */
  #creation = { body: '', key: '' }
  /** Raised by each change, so that a check of earlier settings isn't shown. */
  #revision = 0

  constructor(input: DraftInput) {
    this.#input = input
    this.store = createStore<DraftState>({
      ...{
        list: input.list,
        fields: input.fields,
        source: null,
        lines: null,
        upload: null,
        format: detectAll,
      },
      ...{ inspection: null, isInspecting: false, refusal: null, targets: [], like: null },
      ...{ options: this.#defaultOptions(), check: null, running: null, fault: null },
    })
  }

  #defaultOptions(): ImportOptions {
    return { ...defaultOptions, overwrite: this.#input.isOverwriting }
  }

  /** Replaces the source. The console's own upload of the one before is deleted. */
  async choose(source: Source): Promise<void> {
    this.drop()
    const { signal } = this.#source
    this.store.set({
      ...{ source, lines: null, upload: null, format: detectAll, inspection: null, isInspecting: true },
      ...{
        refusal: null,
        targets: [],
        like: null,
        options: this.#defaultOptions(),
        check: null,
        fault: null,
      },
    })
    try {
      if (source.kind === 'file') await this.#prepareFile(source.file, signal)
      if (!signal.aborted) await this.#inspect(null)
    } catch (error) {
      if (!signal.aborted) this.#refuse(error)
    }
  }

  async #prepareFile(file: File, signal: AbortSignal): Promise<void> {
    void countLines(file).then((lines) => signal.aborted || this.store.set({ lines }))
    this.#sample = await readSample(file)
    if (signal.aborted) return
    if (this.#sample === null || file.size > sampleBytes) this.#startUpload(file)
    if (this.#sample === null) await this.#uploaded
  }

  #startUpload(file: File): void {
    const { signal } = this.#source
    const name = ownUploadName(file.name, randomName())
    this.#uploadName = name
    this.#uploaded = uploadFile({
      ...{ file, name, signal },
      onProgress: (upload) => signal.aborted || this.store.set({ upload }),
    })
    this.#uploaded.catch((error: unknown) => signal.aborted || this.#refuse(error))
  }

  /** The file is refused, so nothing of it stays with the service. */
  #refuse(error: unknown): void {
    const isOver = error instanceof ApiError
    this.store.set({ refusal: messageOf(error), isInspecting: false, inspection: null, upload: null })
    if (isOver) this.#deleteUpload()
  }

  /** Stops what goes on, and deletes the console's own upload. */
  drop(): void {
    this.#source.abort()
    this.#inspecting.abort()
    this.#source = new AbortController()
    this.#deleteUpload()
    this.#sample = null
    this.#revision += 1
  }

  #deleteUpload(): void {
    const name = this.#uploadName
    this.#uploadName = null
    this.#uploaded = null
    // A piece that was in flight has the lock for a moment. What can't be deleted goes after a day.
    if (name !== null) void pause(500).then(() => deleteUpload(name).catch(() => undefined))
  }

  changeFormat(change: Partial<ChosenFormat>): void {
    this.#change({ format: { ...this.store.value.format, ...change } })
    const isMappingKept = Object.keys(change).every((key) => key === 'dates')
    void this.#inspectAgain(isMappingKept ? this.#mapping() : null)
  }

  /** A field has one column: another one that had it is ignored. */
  setTarget(column: number, target: Target): void {
    const isTaken = (other: Target) => target.startsWith('field:') && other === target
    const targets = this.store.value.targets.map((other, i): Target =>
      i === column ? target : isTaken(other) ? 'ignore' : other,
    )
    this.#change({ targets })
    void this.#inspectAgain(this.#mapping())
  }

  setOptions(change: Partial<ImportOptions>): void {
    this.#change({ options: { ...this.store.value.options, ...change } })
  }

  /** Drops what the earlier import proposed. */
  startAfresh(): void {
    this.#change({ like: null, options: this.#defaultOptions() })
    void this.#inspectAgain(null)
  }

  #change(change: Partial<DraftState>): void {
    this.#revision += 1
    this.store.set({ ...change, check: null, fault: null })
  }

  /** New text fields are left out: text can't fail. */
  #mapping(): (string | null)[] {
    return this.store.value.targets.map(targetName)
  }

  async #inspectAgain(mapping: (string | null)[] | null): Promise<void> {
    const { signal } = this.#source
    await this.#inspect(mapping).catch((error: unknown) => {
      if (!signal.aborted && !isAbort(error)) this.#refuse(error)
    })
  }

  /** Inspects the source; without a mapping the columns are proposed anew. */
  async #inspect(mapping: (string | null)[] | null): Promise<void> {
    this.#inspecting.abort()
    this.#inspecting = new AbortController()
    const { signal } = this.#inspecting
    this.store.set({ isInspecting: true })
    const { list, format } = this.store.value
    const request = {
      ...(mapping === null ? {} : { column_mapping: mapping }),
      file_format: askedFormat(format),
    }
    const path = `/mailing_lists/${list.id}/subscriber_imports/inspect`
    const inspection = await this.#withSource((file_source) =>
      call<InspectionView>('POST', path, { subscriber_import: { ...request, file_source } }, { signal }),
    )
    if (signal.aborted) return
    this.store.set({ inspection, isInspecting: false, refusal: null })
    if (mapping === null) this.#propose(inspection)
  }

  #propose(inspection: InspectionView): void {
    const { earlier } = this.#input
    const { fields, like, options } = this.store.value
    const proposed = proposedTargets(inspection)
    const liked =
      earlier === null
        ? null
        : likeTargets(inspection, { earlier: earlier.view, fields, isPartEnough: earlier.isAsked })
    if (earlier === null || liked === null) {
      this.store.set({ targets: proposed, like: null })
      return
    }
    const isNew = like === null
    this.store.set({
      ...{ targets: liked, like: earlier.view },
      options: isNew ? optionsLike(earlier.view, { ...options, isPart: earlier.isAsked }) : options,
    })
    if (liked.join('\n') !== proposed.join('\n')) void this.#inspectAgain(this.#mapping())
  }

  /** Calls with the source. Where an inline body is too large, the file is uploaded first. */
  async #withSource<T>(send: (source: Record<string, unknown>) => Promise<T>, isWhole = false): Promise<T> {
    const { source } = this.store.value
    if (source?.kind === 'url') return send({ type: 'url', url: source.name })
    if (source?.kind !== 'file') return send({ type: 'upload_directory', filename: source?.name })
    const isInline = this.#sample !== null && (!isWhole || this.#uploaded === null)
    if (isInline) {
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

  /** Makes a dry run, and shows its result. */
  async check(): Promise<void> {
    const { signal } = this.#source
    const revision = this.#revision
    this.store.set({ check: null })
    await this.#run(async () => {
      const { id } = await this.#create(this.#mapping(), true)
      const onView = (view: ImportView) => {
        if (revision !== this.#revision) return
        const { number_of_records: all, records_imported: done } = view.stats
        const isOver = ['finished', 'failed', 'cancelled'].includes(view.state)
        this.store.set(isOver ? { check: view } : { running: `Checking: ${done} of ${all ?? 'all'} rows` })
      }
      await followImport(id, { onView, signal })
    })
  }

  /** Makes the new fields and the import. Resolves to its id, or null where that failed. */
  async import(): Promise<number | null> {
    let id: number | null = null
    await this.#run(async () => {
      await this.#uploaded
      await this.#createFields()
      ;({ id } = await this.#create(this.#mapping(), false))
      // The import has the upload now.
      this.#uploadName = null
    })
    return id
  }

  async #run(work: () => Promise<void>): Promise<void> {
    const { upload } = this.store.value
    const isUploading = upload !== null && upload.sent < upload.total
    this.store.set({
      running: isUploading ? 'This waits for the upload' : 'Sending the request',
      fault: null,
    })
    try {
      await work()
    } catch (error) {
      if (!isAbort(error)) this.store.set({ fault: messageOf(error) })
    }
    this.store.set({ running: null })
  }

  async #createFields(): Promise<void> {
    const { inspection, list } = this.store.value
    for (const [column, target] of this.store.value.targets.entries()) {
      const name = newFieldName(inspection?.columns[column]?.header ?? null)
      if (target !== 'new' || name === null) continue
      const custom_field = { name, field_type: 'text' }
      const made = await call<CustomFieldView>('POST', `/mailing_lists/${list.id}/custom_fields`, {
        custom_field,
      })
      const { fields, targets } = this.store.value
      this.store.set({
        ...{ fields: [...fields, made] },
        targets: targets.map((other, i) => (i === column ? (`field:${made.name}` as const) : other)),
      })
    }
  }

  async #create(mapping: (string | null)[], isCheck: boolean): Promise<CreatedImportView> {
    const { list, source, format, inspection, options, targets } = this.store.value
    const isOwnUpload = source?.kind === 'file'
    return this.#withSource(async (file_source) => {
      const isUpload = file_source['type'] === 'upload_directory'
      const shown = isOwnUpload ? { display_name: shownName(source.name) } : {}
      const creation = {
        ...creationOptions(options, targets),
        ...(isCheck ? { dry_run: true, begins_at: 'now' } : {}),
        column_mapping: mapping,
        file_format: inspection === null ? {} : wholeFormat(format, inspection),
        file_source: {
          ...{ ...file_source, ...shown },
          ...(isOwnUpload && isUpload && !isCheck ? { delete_after: true } : {}),
        },
      }
      return this.#post(`/mailing_lists/${list.id}/subscriber_imports`, { subscriber_import: creation })
    }, true)
  }

  /** The same request again has the same key, as long as it isn't known what became of it. */
  async #post(path: string, request: unknown): Promise<CreatedImportView> {
    const body = JSON.stringify(request)
    if (this.#creation.body !== body) this.#creation = { body, key: randomName() }
    const headers = { 'idempotency-key': this.#creation.key }
    try {
      const created = await call<CreatedImportView>('POST', path, request, { headers })
      this.#creation = { body: '', key: '' }
      return created
    } catch (error) {
      // The import may exist, and need the upload.
      if (error instanceof Unreachable)
        this.#source.signal.addEventListener('abort', () => (this.#uploadName = null))
      throw error
    }
  }
}

const maxNameLength = 255
const shownName = (name: string): string => name.replaceAll(/\p{Cc}/gu, '_').slice(0, maxNameLength)

const askedFormat = (chosen: ChosenFormat): Record<string, unknown> => ({
  character_set: chosen.characterSet === '' ? 'auto' : chosen.characterSet,
  ...(chosen.separator === '' ? {} : { csv_field_separator: chosen.separator }),
  ...(chosen.hasHeader === null ? {} : { csv_has_headers: chosen.hasHeader }),
  ...(chosen.skippedLines === null ? {} : { csv_skip_lines: chosen.skippedLines }),
  ...(chosen.dates === '' ? {} : { date_format: chosen.dates }),
})

/** What was inspected, so that the import reads the file as it was shown. */
const wholeFormat = (chosen: ChosenFormat, found: InspectionView): Record<string, unknown> => ({
  csv_field_separator: found.csv_field_separator,
  csv_field_enclosure: found.csv_field_enclosure,
  csv_field_escape: found.csv_field_escape,
  csv_has_headers: found.csv_has_headers,
  csv_skip_lines: found.csv_skip_lines,
  ...(found.date_format === null ? {} : { date_format: found.date_format }),
  ...askedFormat(chosen),
})
