import { createHmac } from 'node:crypto'
import { AddressRefused, type AddressGuard } from '../../../shared/net/address-guard.ts'
import { messageOf } from '../../../shared/contract/errors.ts'
import { ask, guardedAgent, refuseLiteral } from '../../../shared/net/guarded-http.ts'
import { quoted, targetOf } from '../../../shared/net/remote-file.ts'
import type { CallbackBounds } from './callback-bounds.ts'

/** A message as Standard Webhooks has it, and whom it is for. */
export interface Webhook {
  url: string
  /** `whsec_` and the key as base64. */
  secret: string
  id: string
  /** Of this try; receivers refuse what is minutes old. */
  sentAt: Date
  body: string
}

/** What became of a try; a refused address may be another one at the next try. */
export type SendResult = { result: 'delivered' } | { result: 'failed' | 'refused'; problem: string }

export interface SendOptions {
  guard: AddressGuard
  bounds: Pick<CallbackBounds, 'connectMs' | 'tryMs'>
  /** Breaks the try off. */
  signal: AbortSignal
}

/** Of an answer: its status counts, its body is nobody's. */
const maxAnswerBytes = { bytes: 64 * 1024, ms: 1_000 }

/** One try. Throws only when the signal has broken it off. */
export async function sendCallback(webhook: Webhook, options: SendOptions): Promise<SendResult> {
  const { guard, bounds, signal } = options
  const target = targetOf(new URL(webhook.url))
  const deadline = AbortSignal.timeout(bounds.tryMs)
  const agent = guardedAgent(guard, { connectMs: bounds.connectMs, silenceMs: bounds.tryMs })
  try {
    refuseLiteral(guard, target)
    const { statusCode, body } = await ask(target, agent, {
      signal: AbortSignal.any([signal, deadline]),
      method: 'POST',
      headers: headersOf(webhook),
      body: webhook.body,
    })
    body.on('error', () => undefined)
    await body
      .dump({ limit: maxAnswerBytes.bytes, signal: AbortSignal.timeout(maxAnswerBytes.ms) })
      .catch(() => undefined)
    if (statusCode >= 200 && statusCode < 300) return { result: 'delivered' }
    return { result: 'failed', problem: `it answered with status ${statusCode}, expected 2xx` }
  } catch (error) {
    if (signal.aborted) throw error
    if (deadline.aborted)
      return { result: 'failed', problem: `it gave no answer within ${bounds.tryMs / 1000} s` }
    const isRefused = error instanceof AddressRefused
    return {
      result: isRefused ? 'refused' : 'failed',
      problem: quoted(messageOf(error), target.credentials),
    }
  } finally {
    await agent.destroy()
  }
}

const headersOf = (webhook: Webhook): Record<string, string> => ({
  'content-type': 'application/json',
  'webhook-id': webhook.id,
  'webhook-timestamp': String(secondsOf(webhook.sentAt)),
  'webhook-signature': signatureOf(webhook),
})

function signatureOf({ secret, id, sentAt, body }: Webhook): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key)
    .update(`${id}.${secondsOf(sentAt)}.${body}`)
    .digest('base64')
  return `v1,${signature}`
}

const secondsOf = (instant: Date): number => Math.floor(instant.getTime() / 1000)
