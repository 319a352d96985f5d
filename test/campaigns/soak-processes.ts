import { setTimeout as sleep } from 'node:timers/promises'
import { programs } from '../../control-plane/cli/processes.ts'
import type { ProcessName, RunningProcess, Service } from '../helpers/service.ts'
import { Life } from './soak-figures.ts'

/** A process that a supervisor would hold up: when it dies it is started again, with the ports that it had. */
export class Supervised {
  readonly lives: Life[] = []
  readonly name: ProcessName
  readonly #service: Service
  #running: RunningProcess | null = null

  static async start(service: Service, name: ProcessName): Promise<Supervised> {
    const supervised = new Supervised(service, name)
    await supervised.#start({})
    return supervised
  }

  private constructor(service: Service, name: ProcessName) {
    this.#service = service
    this.name = name
  }

  async #start(ports: Record<string, string>): Promise<void> {
    this.#running = await this.#service.start(this.name, {
      ...programs[this.name].environment,
      ...ports,
    })
    this.lives.push(new Life(Object.values(this.running.ready.metrics)[0]!))
  }

  get running(): RunningProcess {
    return this.#running!
  }

  get life(): Life {
    return this.lives.at(-1)!
  }

  async killAndRestart(): Promise<void> {
    const { ready } = this.running
    const port = (url: string | undefined) => new URL(url ?? 'http://none:0').port
    const ports: Record<string, string> = {
      'control-plane': { HTTP_PORT: port(ready.http) },
      engine: { ENGINE_METRICS_PORT: port(ready.metrics['engine']) },
      ftp: { FTP_PORT: port(ready.ftp), FTP_METRICS_PORT: port(ready.metrics['ftp']) },
    }[this.name]
    await this.life.scrape()
    await this.running.stop('SIGKILL')
    const deadline = Date.now() + 60_000
    for (;;) {
      await sleep(1_000)
      try {
        await this.#start(ports)
        return
      } catch (error) {
        // An outgoing connection of somebody may have that port for a moment.
        if (Date.now() > deadline) throw error
      }
    }
  }
}
