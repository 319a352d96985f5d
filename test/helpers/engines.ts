import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { EngineDocument } from '../../shared/contract/schemas/registration.ts'
import { crashAt } from './crash-at.ts'
import { resume, startProgram, until, type Service } from './service.ts'

/** Any number of engines of one service, which a test kills, suspends, or lets crash at a point. */

const main = fileURLToPath(new URL('../../engine/main.ts', import.meta.url))

export interface RunningEngine {
  pid: number
  isAlive: () => boolean
  /** Resolves when the process is gone. */
  ended: Promise<unknown>
  log: () => string
  signal: (signal: NodeJS.Signals) => void
}

export class Engines {
  readonly #service: Service
  readonly #all: RunningEngine[] = []
  /** The time of the last kill or suspension, by the clock of this machine. */
  lastLossAt = 0

  constructor(t: Test, service: Service) {
    this.#service = service
    t.teardown(() => this.kill(this.alive))
  }

  get alive(): RunningEngine[] {
    return this.#all.filter((engine) => engine.isAlive())
  }

  /** The log of all engines, for a failed test. */
  get log(): string {
    return this.#all.map((engine) => engine.log()).join('')
  }

  /** Starts an engine. Resolves when it is ready or has crashed before that; crash-at.ts describes crash points. */
  async start(point?: string): Promise<RunningEngine> {
    const { child, ready, log, ended } = await startProgram([main], {
      ...this.#service.settings,
      ...(point === undefined ? {} : crashAt(point)),
    })
    if (ready === null && point === undefined) throw new Error(`an engine didn't start:\n${log()}`)
    child.once('exit', () => (this.lastLossAt = Date.now()))
    const engine: RunningEngine = {
      pid: child.pid!,
      isAlive: () => child.exitCode === null && child.signalCode === null,
      ended,
      log: () => log().replaceAll(/^/gm, `${child.pid} `),
      signal: (signal) => void child.kill(signal),
    }
    this.#all.push(engine)
    return engine
  }

  async untilEnded(engine: RunningEngine): Promise<void> {
    const isAlive = async () => engine.isAlive()
    await until('the end of the engine', isAlive, (alive) => !alive, 60_000).catch((error: unknown) => {
      throw new Error(`${errorMessage(error)}; it logged:\n${engine.log()}`)
    })
  }

  async untilSuspended(engine: RunningEngine): Promise<void> {
    const hasStopped = (log: string) => log.includes('SIGSTOP at')
    await until('the suspension', async () => engine.log(), hasStopped, 60_000)
    this.lastLossAt = Date.now()
  }

  /** Resumes a suspended engine. */
  async resume(engine: RunningEngine): Promise<void> {
    await resume({ kill: engine.signal }, engine.log)
  }

  async kill(engines: RunningEngine[]): Promise<void> {
    for (const engine of engines) if (engine.isAlive()) engine.signal('SIGKILL')
    await Promise.all(engines.map((engine) => engine.ended))
  }

  /** The engine's registration; null after a take-over, or when it never registered. */
  async documentOf(engine: RunningEngine): Promise<EngineDocument | null> {
    return this.#service.collections.engines.findOne({
      process_id: engine.pid,
      cleared_at: { $exists: false },
    })
  }

  /** Ends the lease as another engine would after its time, which spares a test those seconds. */
  async endLeaseOf(engine: RunningEngine): Promise<void> {
    await this.#service.collections.engines.updateMany({ process_id: engine.pid }, { $set: { dead: true } })
  }

  async untilTakenOver(engine: RunningEngine): Promise<void> {
    const isGone = (document: EngineDocument | null) => document === null
    await until('the take-over', () => this.documentOf(engine), isGone, 60_000)
  }

  /** Waits until only running engines are registered. */
  async untilDeadOnesAreGone(timeoutMs: number): Promise<void> {
    const alive = this.alive.map((engine) => engine.pid)
    await until(
      'the take-over from the dead engines',
      () =>
        this.#service.collections.engines
          .find({ process_id: { $nin: alive }, cleared_at: { $exists: false } })
          .toArray(),
      (documents) => documents.length === 0,
      timeoutMs,
    )
  }
}
