import { clock } from '../../runtime/clock.ts'
import { messageOf, StartError } from '../../contract/errors.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { Part } from '../../runtime/service.ts'
import { within } from '../../runtime/within.ts'
import { FolderMark, type MarkLocation, type MarkProblem } from './folder-mark.ts'

/** DATA_DIR isn't seen as it is: what is missing there may be elsewhere, and what is written there is lost to others. */
export class FolderUnavailable extends Error {
  override readonly name = 'FolderUnavailable'
}

/** Between two looks at a folder with a problem. */
const recheckDelayMs = 5_000
/** A folder that hasn't answered for so long is unavailable. */
const answerTimeoutMs = 5_000
const graceMs = 250
/** How long an answer is taken for true where nothing depends on the very moment. */
const freshMs = 500

/**
 * DATA_DIR as this process sees it. It is compared with the mark of the installation at the start, before a file is
 * believed to be gone, and around each write; see folder-mark.ts. With a problem it is looked at again every 5 s.
 */
export class MarkedFolder implements Part {
  /** False with STAGING=gridfs: no file lies in DATA_DIR, and there is nothing to compare. */
  readonly isUsed: boolean
  readonly #mark: Pick<FolderMark, 'compare'>
  readonly #location: MarkLocation
  readonly #log: Logger
  readonly #listeners: ((problem: string | null) => void)[] = []
  readonly #preparations: (() => Promise<void>)[] = []
  #problem: string | null = null
  #checkedAt = -Infinity
  #isStopped = false
  /** A comparison that gave no answer in time: another one would only take one more thread. */
  #hanging: Promise<MarkProblem | null> | null = null
  #rechecking: NodeJS.Timeout | undefined

  /** Throws a StartError where the folder belongs to another installation, and the database's errors. */
  static async open(location: MarkLocation, collections: Collections, log: Logger): Promise<MarkedFolder> {
    const mark = new FolderMark(location, collections)
    const folder = new MarkedFolder(location, mark, log)
    if (!folder.isUsed) return folder
    const problem = await folder.#compare()
    if (problem?.isForeign === true) throw new StartError(problem.text)
    await folder.#note(problem)
    return folder
  }

  private constructor(location: MarkLocation, mark: FolderMark, log: Logger) {
    this.isUsed = location.STAGING === 'disk'
    this.#location = location
    this.#mark = mark
    this.#log = log
  }

  /** What was wrong with it when it was last looked at; null where nothing was. */
  get problem(): string | null {
    return this.#problem
  }

  /** Tells each change of `problem`. */
  onChange(listener: (problem: string | null) => void): void {
    this.#listeners.push(listener)
  }

  /** Runs `prepare` before the folder counts as available: now, or when its problem is over. */
  async whenAvailable(prepare: () => Promise<void>): Promise<void> {
    if (this.#problem === null) await prepare()
    else this.#preparations.push(prepare)
  }

  /** Looks at it now. Resolves to what is wrong, or null. */
  async check(): Promise<string | null> {
    if (!this.isUsed) return null
    try {
      await this.#note(await this.#compare())
    } catch (error) {
      // Without the database an unmarked folder stays unmarked.
      this.#log.warn(`DATA_DIR can't be compared with the database, trying again: ${messageOf(error)}`)
      if (this.#problem !== null) this.#recheckLater()
    }
    return this.#problem
  }

  /** Throws FolderUnavailable with a problem. `fresh`: what was seen a moment ago isn't enough. */
  async require({ fresh = false }: { fresh?: boolean } = {}): Promise<void> {
    if (!this.isUsed) return
    if (fresh || clock.monotonicMs() - this.#checkedAt > freshMs) await this.check()
    if (this.#problem !== null) throw new FolderUnavailable(this.#problem)
  }

  stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#rechecking)
    return Promise.resolve()
  }

  async #note(found: MarkProblem | null): Promise<void> {
    let problem = found?.text ?? null
    if (problem === null && this.#problem !== null)
      problem = await this.#prepare().catch((error: unknown) => `DATA_DIR can't be used: ${messageOf(error)}`)
    this.#checkedAt = clock.monotonicMs()
    const before = this.#problem
    this.#problem = problem
    if (problem !== null) this.#recheckLater()
    if (problem === before) return
    if (problem === null) this.#log.info('DATA_DIR has the mark of this installation: work goes on')
    else this.#log.error(`nothing is done with files until DATA_DIR is available: ${problem}`)
    for (const listener of this.#listeners) listener(problem)
  }

  async #prepare(): Promise<null> {
    for (const prepare of this.#preparations) await prepare()
    this.#preparations.length = 0
    return null
  }

  #recheckLater(): void {
    clearTimeout(this.#rechecking)
    if (this.#isStopped) return
    this.#rechecking = setTimeout(() => void this.check(), recheckDelayMs).unref()
  }

  /** A mount whose server is away may never answer. */
  async #compare(): Promise<MarkProblem | null> {
    const answer = this.#hanging ?? this.#mark.compare()
    let first = await within(answerTimeoutMs, answer, 'silence' as const)
    // A process that was suspended or busy sees the end of the wait before an answer that is there.
    if (first === 'silence') first = await within(graceMs, answer, 'silence' as const)
    if (first !== 'silence') return first
    this.#hanging = answer
    const end = () => (this.#hanging = null)
    answer.then(end, end)
    const text = `DATA_DIR ${this.#location.DATA_DIR} gave no answer for ${answerTimeoutMs / 1000} s: check its mount`
    return { text, isForeign: false }
  }
}
