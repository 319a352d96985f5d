import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import { programEnvironment } from '../../shared/runtime/config.ts'
import { programArguments } from '../../shared/runtime/program-arguments.ts'
import { errorMessage, StartError } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'
import { exitCodes } from './exit-codes.ts'
import { programs } from './processes.ts'

type Name = keyof typeof programs

interface ReadyLine {
  ready: boolean
  http?: string
  ftp?: string
  ftps?: string
  metrics: Record<string, string>
  mongodb: string
  api_key?: string | null
}

interface SupervisedChild extends Part {
  ready: ReadyLine
  /** Sends a message to the process, and again to each that replaces it. */
  tell(message: object): void
}

/** A service must survive a moment in which MongoDB or a port is unavailable. */
const restartBounds = {
  /** Pause before the first restart; each further pause is twice as long (exponential backoff). */
  firstPauseMs: 250,
  maxPauseMs: 30_000,
  /** When restarts have failed for this time, the supervisor gives up. */
  giveUpAfterMs: 300_000,
}

interface Supervision {
  log: Logger
  /** Settings of the child that differ from those of this process. */
  settings: Record<string, string>
  /** Ends all processes together, including one that is just being started. */
  stopping: AbortSignal
  /** Called when restarts have failed for too long. */
  onHopeless: () => void
}

/**
 * Starts a process and keeps it running until `stopping` is aborted. Throws a StartError when it ends before it is ready
 * for the first time.
 */
export async function superviseChild(
  name: Name,
  { log, settings, stopping, onHopeless }: Supervision,
  bounds = restartBounds,
): Promise<SupervisedChild> {
  let { child, ready } = await startChild(name, settings, stopping)
  const announced = { ...settings, ...readPorts(ready) }
  let restarted = Promise.resolve()
  let told: object | null = null

  const watch = () => {
    child.once('exit', (code, signal) => {
      if (stopping.aborted) return
      log.error(`the ${name} process ended (${signal ?? `exit code ${code}`}) and is started again`)
      restarted = restart()
    })
  }
  const restart = async (): Promise<void> => {
    const hopelessAt = clock.monotonicMs() + bounds.giveUpAfterMs
    for (let pauseMs = bounds.firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, bounds.maxPauseMs)) {
      try {
        await sleep(pauseMs, undefined, { signal: stopping })
        ;({ child, ready } = await startChild(name, announced, stopping))
        if (told !== null) child.send(told)
        watch()
        return
      } catch (error) {
        if (stopping.aborted) return
        if (clock.monotonicMs() >= hopelessAt) {
          log.fatal({ err: error }, `the ${name} process can't be started again`)
          onHopeless()
          return
        }
        log.error(
          `the ${name} process couldn't be started again, and a further try will follow: ${errorMessage(error)}`,
        )
      }
    }
  }
  watch()

  return {
    get ready() {
      return ready
    },
    tell(message) {
      told = message
      if (child.connected) child.send(message)
    },
    async stop() {
      await restarted
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}

/** A restarted process keeps its ports, because the first ready line has announced them. */
function readPorts(ready: ReadyLine): Record<string, string> {
  const ports: Record<string, string> = {}
  const add = (setting: string, url: string | undefined) => {
    if (url !== undefined) ports[setting] = new URL(url).port
  }
  add('HTTP_PORT', ready.http)
  add('FTP_PORT', ready.ftp)
  add('FTPS_PORT', ready.ftps)
  add('ENGINE_METRICS_PORT', ready.metrics['engine'])
  add('FTP_METRICS_PORT', ready.metrics['ftp'])
  return ports
}

async function startChild(
  name: Name,
  settings: Record<string, string>,
  stopping: AbortSignal,
): Promise<{ child: ChildProcess; ready: ReadyLine }> {
  stopping.throwIfAborted()
  const { file, environment } = programs[name]
  const child = spawn(process.execPath, programArguments(file), {
    env: programEnvironment({ fallbacks: environment, settings }),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    // A process group of its own, so that Ctrl-C reaches the child only once, through this process.
    detached: true,
  })
  const stop = () => child.kill('SIGTERM')
  stopping.addEventListener('abort', stop)
  return new Promise((resolve, reject) => {
    child.once('exit', (code, signal) => {
      stopping.removeEventListener('abort', stop)
      // A process that ends by itself after a failure has logged its reason.
      reject(
        new StartError(
          `the ${name} process ended before it was ready (${signal ?? `exit code ${code}`})${code === exitCodes.failed ? ': its reason is in the log above' : ''}`,
          { isLogged: code === exitCodes.failed },
        ),
      )
    })
    child.once('error', reject)
    createInterface({ input: child.stdout! }).once('line', (line) => {
      const said = JSON.parse(line) as ReadyLine
      if (said.ready) resolve({ child, ready: said })
      // The first API key, from a control plane that is stopped while it starts.
      else process.stdout.write(`${line}\n`)
    })
  })
}
