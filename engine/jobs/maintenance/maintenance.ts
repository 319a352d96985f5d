import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Part } from '../../../shared/runtime/service.ts'
import { PollLoop, withJitter } from '../../scheduler/poll-loop.ts'

/** A job that every engine runs at an interval. Two engines may run it at the same time. */
export interface MaintenanceJob {
  name: string
  everyMs: number
  run(): Promise<void>
}

/** Jobs may be broken off anywhere; with the database away one would otherwise delay a stop for seconds. */
const graceMs = 300

/** Runs a job at once and then at its interval, until it is stopped. */
export function startMaintenance(job: MaintenanceJob, log: Logger): Part {
  const loop = new MaintenanceLoop(job, log)
  loop.start()
  return loop
}

class MaintenanceLoop extends PollLoop {
  readonly #job: MaintenanceJob

  constructor(job: MaintenanceJob, log: Logger) {
    super({ problem: `${job.name} failed`, graceMs, log })
    this.#job = job
  }

  protected override async poll(): Promise<number> {
    await this.#job.run()
    return this.retryMs()
  }

  protected override retryMs(): number {
    return withJitter(this.#job.everyMs)
  }
}
