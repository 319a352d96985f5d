import { clock } from '../../runtime/clock.ts'
import { errorMessage, StartError } from '../../contract/errors.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { Part } from '../../runtime/service.ts'
import { within } from '../../runtime/within.ts'
import { answerTimeoutMs, answerValidMs, DiskReserve } from './disk-reserve.ts'
import { FolderMark, type MarkLocation, type MarkProblem } from './folder-mark.ts'

/** DATA_DIR can't be trusted: files that are missing there may exist, and files written there may be lost. */
export class FolderUnavailable extends Error {
  override readonly name = 'FolderUnavailable'
}

/** Pause between two checks of a folder with a problem. */
const recheckDelayMs = 5_000
const graceMs = 250

/**
 * Watches whether DATA_DIR has the mark of the installation (folder-mark.ts). It is compared at the start, before a
 * file counts as gone, and around each write. With a problem it is checked again every 5 s.
 */
export class MarkedFolder implements Part {
  /** False with STAGING=gridfs: no file lies in DATA_DIR, and there is nothing to compare. */
  readonly isUsed: boolean
  /** The space that stays free on its disk. */
  readonly reserve: DiskReserve
  readonly #mark: Pick<FolderMark, 'compare'>
  readonly #location: MarkLocation
  readonly #log: Logger
  readonly #listeners: ((problem: string | null) => void)[] = []
  readonly #preparations: (() => Promise<void>)[] = []
  #problem: string | null = null
  #checkedAt = -Infinity
  #isStopped = false
  /**
   * A comparison without an answer in time. Its result is awaited, because a second one would occupy another thread.
   */
  #hanging: Promise<MarkProblem | null> | null = null
  #rechecking: NodeJS.Timeout | undefined

  /** Throws a StartError where the folder belongs to another installation, and the database's errors. */
  static async open(location: MarkLocation, collections: Collections, log: Logger): Promise<MarkedFolder> {
    const mark = new FolderMark(location, collections)
    const folder = new MarkedFolder(location, mark, log)
    if (!folder.isUsed) return folder
    const problem = await folder.#compare()
    if (problem?.isForeign === true) throw new StartError(problem.text)
    await folder.#apply(problem)
    return folder
  }

  private constructor(location: MarkLocation, mark: FolderMark, log: Logger) {
    this.isUsed = location.STAGING === 'disk'
    this.reserve = new DiskReserve(location)
    this.#location = location
    this.#mark = mark
    this.#log = log
  }

  /** The problem that the last check found, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** The listener is called at each change of `problem`. */
  onChange(listener: (problem: string | null) => void): void {
    this.#listeners.push(listener)
  }

  /** Runs `prepare` before the folder counts as available: now, or once its problem is over. */
  async whenAvailable(prepare: () => Promise<void>): Promise<void> {
    if (this.#problem === null) await prepare()
    else this.#preparations.push(prepare)
  }

  /** Checks the folder now. Resolves to its problem, or null. */
  async check(): Promise<string | null> {
    if (!this.isUsed) return null
    try {
      await this.#apply(await this.#compare())
    } catch (error) {
      // Without the database an unmarked folder stays unmarked.
      this.#log.warn(`DATA_DIR can't be compared with the database, trying again: ${errorMessage(error)}`)
      if (this.#problem !== null) this.#recheckLater()
    }
    return this.#problem
  }

  /** Throws FolderUnavailable with a problem. `fresh` ignores the last answer, which may be up to 500 ms old. */
  async require({ fresh = false }: { fresh?: boolean } = {}): Promise<void> {
    if (!this.isUsed) return
    if (fresh || clock.monotonicMs() - this.#checkedAt > answerValidMs) await this.check()
    if (this.#problem !== null) throw new FolderUnavailable(this.#problem)
  }

  /** Makes a function that does `work`, or throws FolderUnavailable while the folder has a problem. */
  guarded<Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) {
    return async (...args: Args): Promise<Result> => {
      await this.require()
      return work(...args)
    }
  }

  stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#rechecking)
    return Promise.resolve()
  }

  async #apply(found: MarkProblem | null): Promise<void> {
    let problem = found?.text ?? null
    if (problem === null && this.#problem !== null)
      problem = await this.#prepare().catch(
        (error: unknown) => `DATA_DIR can't be used: ${errorMessage(error)}`,
      )
    this.#checkedAt = clock.monotonicMs()
    const before = this.#problem
    this.#problem = problem
    if (problem !== null) this.#recheckLater()
    if (problem === before) return
    if (problem === null)
      this.#log.info('DATA_DIR has the mark of this installation: work with files resumes')
    else this.#log.error(`no file is read or written until DATA_DIR is available: ${problem}`)
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

  /** Compares with a timeout, because a mount whose server is away may never answer. */
  async #compare(): Promise<MarkProblem | null> {
    const answer = this.#hanging ?? this.#mark.compare()
    let first = await within(answerTimeoutMs, answer, 'silence' as const)
    // In a process that was suspended or busy the timer may fire before an answer that has come already.
    if (first === 'silence') first = await within(graceMs, answer, 'silence' as const)
    if (first !== 'silence') return first
    this.#hanging = answer
    const end = () => (this.#hanging = null)
    answer.then(end, end)
    const text = `DATA_DIR ${this.#location.DATA_DIR} gave no answer for ${answerTimeoutMs / 1000} s: check its mount`
    return { text, isForeign: false }
  }
}
