import { fork, type ForkOptions } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { endOnInterrupt } from './interrupt.ts'

/** A program in a process of its own, so that its times contain no other work. */
export interface Program<Order, Reply> {
  pids: () => number[]
  send: (order: Order) => void
  /** The next message that isn't a number; fails when the process ends before. */
  reply: () => Promise<Reply>
  end: () => Promise<void>
}

/** Starts the program in a file. Messages from it that are numbers are its progress. */
export function startProgram<Order extends object, Reply extends object>(
  url: URL,
  { onProgress, ...options }: ForkOptions & { onProgress?: (progress: number) => void } = {},
): Program<Order, Reply> {
  const file = fileURLToPath(url)
  const child = fork(file, options)
  let onReply: (reply: Reply) => void = () => undefined
  child.on('message', (message) => {
    if (typeof message === 'number') onProgress?.(message)
    else onReply(message as Reply)
  })
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      reject(new Error(`${path.basename(file)} ended early (${signal ?? `exit code ${code}`})`)),
    )
  })
  ended.catch(() => undefined)
  const unregister = endOnInterrupt(() => {
    child.kill()
    return ended
  })
  return {
    pids: () => (child.pid === undefined ? [] : [child.pid]),
    send: (order) => void child.send(order),
    reply: () => Promise.race([new Promise<Reply>((resolve) => (onReply = resolve)), ended]),
    async end() {
      if (child.connected) child.disconnect()
      await ended.catch(() => undefined)
      unregister()
    },
  }
}
