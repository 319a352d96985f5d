import { startProgram } from '../program.ts'

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
  /** With broken connections and missing replies. */
  wrongReplies: number
  /** The first of them. */
  wrong: string[]
}

/** autocannon in a process of its own. */
export class Cannon {
  /** To the current order, as last reported. */
  replies = 0
  readonly #program = startProgram<CannonOrder, Volley>(new URL('./cannon-process.ts', import.meta.url), {
    onProgress: (replies) => (this.replies = replies),
  })

  async fire(order: CannonOrder): Promise<Volley> {
    this.replies = 0
    this.#program.send(order)
    const volley = await this.#program.reply()
    this.replies = volley.milliseconds.length
    return volley
  }

  stop = (): Promise<void> => this.#program.end()
}
