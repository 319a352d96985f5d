import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface CannonRequest {
  method: 'GET' | 'POST' | 'PUT'
  path: string
  /** JSON text. */
  body?: string
  /** A part of the text of a right reply. */
  expect: string
}

export interface CannonOrder {
  url: string
  authorization: string
  connections: number
  seconds: number
  /** Sent in this order, again from the first after the last. */
  requests: CannonRequest[]
}

/** The result of one order. */
export interface Volley {
  /** Milliseconds of each reply, from its request's first byte to its own last byte. */
  milliseconds: number[]
  seconds: number
  /** Broken connections and missing replies. */
  errors: number
  wrongReplies: number
  /** The first of them. */
  wrong: string[]
}

/** autocannon in a process of its own: in a shared thread the times would contain other work. */
export class Cannon {
  readonly #child: ChildProcess
  readonly #ended: Promise<never>
  /** To the current order, as last reported. */
  replies = 0

  constructor() {
    this.#child = fork(fileURLToPath(new URL('./cannon-process.ts', import.meta.url)))
    this.#ended = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`the process that sends the requests ended with ${String(code)}`)
    })
    this.#ended.catch(() => undefined)
  }

  async fire(order: CannonOrder): Promise<Volley> {
    this.replies = 0
    let onMessage: (message: Volley | number) => void = () => undefined
    const answered = new Promise<Volley>((resolve) => {
      onMessage = (message) => {
        if (typeof message === 'number') this.replies = message
        else resolve(message)
      }
    })
    this.#child.on('message', onMessage)
    this.#child.send(order)
    try {
      const volley = await Promise.race([answered, this.#ended])
      this.replies = volley.milliseconds.length
      return volley
    } finally {
      this.#child.off('message', onMessage)
    }
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect()
  }
}
