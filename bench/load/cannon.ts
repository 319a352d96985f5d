import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface CannonRequest {
  method: 'GET' | 'POST' | 'PUT'
  path: string
  /** JSON text. */
  body?: string
  /** What the text of a right reply holds. */
  expect: string
}

export interface CannonOrder {
  url: string
  authorization: string
  connections: number
  seconds: number
  /** Ends with so many replies, whatever the seconds are. */
  amount?: number
  /** Sent in this order, from the first again when they are used up. */
  requests: CannonRequest[]
}

/** What one order came to. */
export interface Volley {
  /** Of each reply, from its request's first byte to its own last. */
  milliseconds: number[]
  seconds: number
  /** Connections that broke and replies that never came. */
  errors: number
  wrongReplies: number
  /** The first of them. */
  wrong: string[]
  /** Requests were sent again, which only some of them may be. */
  usedUp: boolean
}

/** autocannon in a process of its own. */
export class Cannon {
  readonly #child: ChildProcess
  /** That came to the order that is carried out, as far as has been heard. */
  replies = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('./cannon-process.ts', import.meta.url)))
  }

  async fire(order: CannonOrder): Promise<Volley> {
    const done = new AbortController()
    const { signal } = done
    const ended = once(this.#child, 'exit', { signal }).then(([code]) => {
      throw new Error(`the process that sends the requests ended with ${String(code)}`)
    })
    this.replies = 0
    const answered = new Promise<Volley>((resolve) => {
      const onMessage = (message: Volley | number) => {
        if (typeof message === 'number') this.replies = message
        else resolve(message)
      }
      this.#child.on('message', onMessage)
      signal.addEventListener('abort', () => this.#child.off('message', onMessage))
    })
    this.#child.send(order)
    try {
      const volley = await Promise.race([answered, ended])
      this.replies = volley.milliseconds.length
      return volley
    } finally {
      ended.catch(() => undefined)
      done.abort()
    }
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect()
  }
}
