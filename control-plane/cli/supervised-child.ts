import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../shared/runtime/clock.ts'
import { programEnvironment } from '../../shared/runtime/config.ts'
import { errorMessage, StartError } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'
import { exitCodes } from './exit-codes.ts'
import { programs } from './processes.ts'

type Name = keyof typeof programs

interface ReadyLine {
  http?: string
  ftp?: string
  ftps?: string
  metrics: Record<string, string>
  mongodb: string
  mongodb_password_file: string | null
  api_key?: string | null
}

interface SupervisedChild extends Part {
  ready: ReadyLine
}

/** A service must survive that MongoDB or a port is unavailable for a moment. */
const restartBounds = {
  /** Pause before the first restart; each further pause is twice as long (exponential backoff). */
  firstPauseMs: 1_000,
  maxPauseMs: 30_000,
  /** When restarts have failed for this time, the supervisor gives up. */
  giveUpAfterMs: 300_000,
}

/** Starts a process and keeps it running. Throws a StartError when it ends before it is ready for the first time. */
export async function superviseChild(
  name: Name,
  log: Logger,
  onHopeless: () => void,
  bounds = restartBounds,
): Promise<SupervisedChild> {
  let stopping = false
  let { child, ready } = await startChild(name, {})
  const announcedPorts = readPorts(ready)

  const watch = () => {
    child.once('exit', (code, signal) => {
      if (stopping) return
      log.error(`the ${name} process ended (${signal ?? `exit code ${code}`}) and is started again`)
      void restart()
    })
  }
  const restart = async (): Promise<void> => {
    const hopelessAt = clock.monotonicMs() + bounds.giveUpAfterMs
    for (let pauseMs = bounds.firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, bounds.maxPauseMs)) {
      await sleep(pauseMs)
      if (stopping) return
      try {
        ;({ child, ready } = await startChild(name, announcedPorts))
        if (stopping) child.kill('SIGTERM')
        watch()
        return
      } catch (error) {
        if (stopping) return
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
    async stop() {
      stopping = true
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
      child.kill('SIGTERM')
      await ended
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
  ports: Record<string, string>,
): Promise<{ child: ChildProcess; ready: ReadyLine }> {
  // A process group of its own, so that Ctrl-C reaches the child only once, through this process.
  const { file, environment } = programs[name]
  const child = spawn(process.execPath, [file], {
    env: programEnvironment({ fallbacks: environment, settings: ports }),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    detached: true,
  })
  return new Promise((resolve, reject) => {
    child.once('exit', (code, signal) => {
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
      resolve({ child, ready: JSON.parse(line) as ReadyLine })
    })
  })
}
