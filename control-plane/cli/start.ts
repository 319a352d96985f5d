import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { environmentWith } from '../../shared/config.ts'
import { StartError } from '../../shared/errors.ts'
import type { Logger } from '../../shared/logger.ts'
import { runProcess, type Part } from '../../shared/service.ts'
import { programs } from './processes.ts'

/**
 * The whole service in the foreground: the three processes as children, started in order, restarted when one breaks
 * off, stopped together. They share an embedded database, if there is one, as they would on their own.
 */
type Name = keyof typeof programs

interface ReadyLine {
  http?: string
  ftp?: string
  ftps?: string
  metrics: Record<string, string>
  mongodb: string
  api_key?: string | null
}

const restartMs = 1_000

await runProcess('start', async (process) => {
  const { log } = process
  const broken = () => process.stop(1)
  const controlPlane = process.add(await superviseChild('control-plane', log, broken))
  // Both to their end: one that can't start must not leave the other one to nobody.
  const starts = [superviseChild('engine', log, broken), superviseChild('ftp', log, broken)] as const
  for (const start of await Promise.allSettled(starts))
    if (start.status === 'fulfilled') process.add(start.value)
  const [engine, ftp] = await Promise.all(starts)
  process.ready({
    http: controlPlane.ready.http,
    ftp: ftp.ready.ftp,
    ...(ftp.ready.ftps === undefined ? {} : { ftps: ftp.ready.ftps }),
    metrics: { ...controlPlane.ready.metrics, ...engine.ready.metrics, ...ftp.ready.metrics },
    mongodb: controlPlane.ready.mongodb,
    api_key: controlPlane.ready.api_key,
  })
})

interface SupervisedChild extends Part {
  ready: ReadyLine
}

/** Starts a process and keeps it running. Throws a StartError when it ends before it is ready. */
async function superviseChild(name: Name, log: Logger, onHopeless: () => void): Promise<SupervisedChild> {
  let stopping = false
  let { child, ready } = await startChild(name, {})
  const portsOfFirstStart = portsOf(ready)

  const watch = () => {
    child.once('exit', (code, signal) => {
      if (stopping) return
      log.error(`the ${name} process ended (${signal ?? `exit code ${code}`}) and is started again`)
      void restart()
    })
  }
  const restart = async (): Promise<void> => {
    await sleep(restartMs)
    if (stopping) return
    try {
      ;({ child, ready } = await startChild(name, portsOfFirstStart))
      if (stopping) child.kill('SIGTERM')
      watch()
    } catch (error) {
      log.fatal({ err: error }, `the ${name} process can't be started again`)
      onHopeless()
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

/** A restarted process keeps its ports: they have been announced. */
function portsOf(ready: ReadyLine): Record<string, string> {
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
  // In a group of its own, so that Ctrl-C comes only once, from here.
  const { file, environment } = programs[name]
  const child = spawn(process.execPath, [file], {
    env: { ...environmentWith(environment), ...ports },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    detached: true,
  })
  return new Promise((resolve, reject) => {
    child.once('exit', (code, signal) => {
      reject(
        new StartError(
          `the ${name} process ended before it was ready (${signal ?? `exit code ${code}`}): its reason is in the log above`,
        ),
      )
    })
    child.once('error', reject)
    createInterface({ input: child.stdout! }).once('line', (line) => {
      resolve({ child, ready: JSON.parse(line) as ReadyLine })
    })
  })
}
