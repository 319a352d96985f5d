import { setTimeout as sleep } from 'node:timers/promises'
import { programs } from '../../control-plane/cli/processes.ts'
import type { ProcessName, RunningProcess, Service } from '../helpers/service.ts'
import { ProcessRun } from './soak-metrics.ts'

/** A process that is started again on its old ports when it was killed, as a supervisor would do. */
export class Supervised {
  readonly runs: ProcessRun[] = []
  readonly name: ProcessName
  running: RunningProcess
  lastRun: ProcessRun
  readonly #service: Service

  static async start(service: Service, name: ProcessName): Promise<Supervised> {
    return new Supervised(service, name, await startOn(service, name, {}))
  }

  private constructor(service: Service, name: ProcessName, running: RunningProcess) {
    this.#service = service
    this.name = name
    this.running = running
    this.lastRun = this.#recordRun()
  }

  #recordRun(): ProcessRun {
    const [url = ''] = Object.values(this.running.ready.metrics)
    const run = new ProcessRun(url)
    this.runs.push(run)
    return run
  }

  async killAndRestart(): Promise<void> {
    const { ready } = this.running
    const port = (url: string | undefined) => new URL(url ?? 'http://none:0').port
    const ports: Record<string, string> = {
      'control-plane': { HTTP_PORT: port(ready.http) },
      engine: { ENGINE_METRICS_PORT: port(ready.metrics['engine']) },
      ftp: { FTP_PORT: port(ready.ftp), FTP_METRICS_PORT: port(ready.metrics['ftp']) },
    }[this.name]
    await this.lastRun.scrape()
    await this.running.stop('SIGKILL')
    const deadline = Date.now() + 60_000
    for (;;) {
      await sleep(1_000)
      try {
        this.running = await startOn(this.#service, this.name, ports)
        this.lastRun = this.#recordRun()
        return
      } catch (error) {
        // An outgoing connection of another process may occupy the port for a moment.
        if (Date.now() > deadline) throw error
      }
    }
  }
}

const startOn = (service: Service, name: ProcessName, ports: Record<string, string>) =>
  service.start(name, { ...programs[name].environment, ...ports })
