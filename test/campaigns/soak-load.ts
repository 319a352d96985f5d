import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'basic-ftp'
import type { Test } from 'tap'
import { basic, bootstrapKey, callerOf, type Answer, type Call, type Json } from '../helpers/service.ts'
import type { Supervised } from './soak-processes.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { present } from '../helpers/present.ts'

/**
 * Reaches the service as clients with two addresses do. Each request goes to either of them, and is repeated where it
 * broke off, until it is answered.
 */
export class SoakClient {
  /** Replies of the control plane that is never killed, and the bytes that its FTP server received. */
  readonly steady = { replies: 0, broken: 0, bytes: 0, brokenUploads: 0 }
  readonly happened = new Map<string, number>()
  readonly latencies: number[] = []
  readonly #planes: { origin: string; call: Call; isSteady: boolean }[]
  readonly #ftp: { url: string; isSteady: boolean }[]

  constructor(planes: Supervised[], ftp: Supervised[]) {
    this.#planes = planes.map(({ running }, i) => {
      const origin = present(running.ready.http, 'the URL of the API')
      return { origin, call: callerOf(() => origin), isSteady: i === 0 }
    })
    this.#ftp = ftp.map(({ running }, i) => ({
      url: present(running.ready.ftp, 'the URL of the FTP server'),
      isSteady: i === 0,
    }))
  }

  note(what: string): void {
    this.happened.set(what, (this.happened.get(what) ?? 0) + 1)
  }

  /** The first answer that isn't a 5xx; `tries` says whether an earlier one may have done it already. */
  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer & { tries: number }> {
    const what = `${method} ${path.replaceAll(/\d+/g, 'N').replace(/[^/]+@.*/, 'ADDRESS')}`
    for (let tries = 1; ; tries += 1) {
      const { call, isSteady } = anyOf(this.#planes)
      const askedAt = performance.now()
      try {
        const answer = await call(method, path, body, { headers })
        if (isSteady) {
          this.steady.replies += 1
          this.latencies.push(performance.now() - askedAt)
        }
        if (answer.status < 500) {
          this.note('requests')
          return { ...answer, tries }
        }
        this.note(`${answer.status} to ${what}`)
      } catch (error) {
        if (!isConnectionError(error)) throw error
        if (isSteady) this.steady.broken += 1
        this.note(isSteady ? 'requests broken off by one that lives' : 'requests broken off')
      }
      if (tries === maxAttempts) throw new Error(`${what} was answered by nobody, ${maxAttempts} times`)
      await sleep(300)
    }
  }

  /** The reply's `data`; throws when it is refused. */
  async data(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Json> {
    const answer = await this.ask(method, path, body, headers)
    if (answer.body?.success !== true)
      throw new Error(`${method} ${path}: ${answer.status} ${answer.text.slice(0, 1_000)}`)
    return answer.body.data
  }

  /** Follows an import's events to its end, to whichever control plane there is, and returns its last view. */
  async untilEnd(importId: number): Promise<Json> {
    for (let tries = 1; tries <= maxAttempts; tries += 1) {
      const { origin, isSteady } = anyOf(this.#planes)
      try {
        const response = await fetch(`${origin}/svc/api/v2/subscriber_imports/${importId}/events`, {
          headers: { authorization: basic(`api:${bootstrapKey}`) },
          signal: AbortSignal.timeout(240_000),
        })
        const text = await response.text()
        if (isSteady) this.steady.replies += 1
        const last = text.match(/^data: .*$/gm)?.at(-1)
        const view = last === undefined ? null : JSON.parse(last.slice('data: '.length))
        if (['finished', 'failed', 'cancelled'].includes(view?.state)) return view
        this.note(`an event stream ended early with ${response.status}`)
      } catch (error) {
        if (!isConnectionError(error)) throw error
        if (isSteady) this.steady.broken += 1
        this.note(isSteady ? 'event streams broken off by one that lives' : 'event streams broken off')
      }
      await sleep(300)
    }
    throw new Error(`the events of import ${importId} never came to its end`)
  }

  /** Uploads with a public FTP client, from the beginning and to either server until one has it. */
  upload(name: string, content: Buffer): Promise<void> {
    return this.#withFtp(async (ftp, isSteady) => {
      try {
        await ftp.uploadFrom(Readable.from([content]), name)
        if (isSteady) this.steady.bytes += content.length
        this.note('uploads')
      } catch (error) {
        if (isSteady) this.steady.brokenUploads += 1
        throw error
      }
    })
  }

  remove(name: string): Promise<void> {
    return this.#withFtp(async (ftp) => {
      const names = await ftp.list()
      if (names.some((file) => file.name === name)) await ftp.remove(name)
    })
  }

  async #withFtp(work: (ftp: Client, isSteady: boolean) => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const { url, isSteady } = anyOf(this.#ftp)
      const { hostname: host, port } = new URL(url)
      const ftp = new Client(30_000)
      try {
        await ftp.access({ host, port: Number(port), user: 'api', password: bootstrapKey })
        await work(ftp, isSteady)
        return
      } catch (error) {
        this.note(`ftp: ${String(error).replaceAll(/\d{4,}/g, 'N')}`)
        if (tries === maxAttempts) throw error
      } finally {
        ftp.close()
      }
      await sleep(500)
    }
  }
}

/**
 * The attempts last two minutes. A process is back after a few seconds, and a killed upload's name is free after 15.
 */
const maxAttempts = 240

const isConnectionError = (error: unknown): boolean => error instanceof TypeError

export const anyOf = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!

/** Serves files of which each is there until it is forgotten. */
export async function serveFiles(t: Test): Promise<{ files: Map<string, Buffer>; origin: string }> {
  const files = new Map<string, Buffer>()
  const server = createServer((request, response) => {
    const content = files.get(request.url ?? '')
    response.writeHead(content === undefined ? 404 : 200).end(content)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return { files, origin: `http://127.0.0.1:${listeningPort(server)}` }
}
