import { createHmac } from 'node:crypto'
import { AddressRefused, type AddressGuard } from '../../../shared/net/address-guard.ts'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { sendGuardedRequest, guardedAgent, refuseLiteral } from '../../../shared/net/guarded-http.ts'
import { quoteServerText, splitCredentials } from '../../../shared/net/remote-file.ts'
import type { CallbackBounds } from './callback-bounds.ts'

/** A message as defined by Standard Webhooks, and its receiver. */
interface Webhook {
  url: string
  /** `whsec_` and the key in base64. */
  secret: string
  id: string
  /** Time of this attempt: receivers refuse a message that is minutes old. */
  sentAt: Date
  body: string
}

/** Result of an attempt. A refused address is tried again too, because its host may resolve to another one by then. */
export type SendResult = { result: 'delivered' } | { result: 'failed' | 'refused'; problem: string }

interface SendOptions {
  guard: AddressGuard
  bounds: Pick<CallbackBounds, 'connectMs' | 'attemptTimeoutMs'>
  /** Aborts the attempt. */
  signal: AbortSignal
}

/** Only the status of an answer counts. Its body is read up to these limits and discarded, to end the request properly. */
const answerLimits = { bytes: 64 * 1024, ms: 1_000 }

/** Makes one attempt. Throws only when the signal has aborted it. */
export async function sendCallback(webhook: Webhook, options: SendOptions): Promise<SendResult> {
  const { guard, bounds, signal } = options
  const target = splitCredentials(new URL(webhook.url))
  const deadline = AbortSignal.timeout(bounds.attemptTimeoutMs)
  const agent = await guardedAgent(guard, { connectMs: bounds.connectMs, silenceMs: bounds.attemptTimeoutMs })
  try {
    refuseLiteral(guard, target)
    const { statusCode, body } = await sendGuardedRequest(target, agent, {
      signal: AbortSignal.any([signal, deadline]),
      method: 'POST',
      headers: webhookHeaders(webhook),
      body: webhook.body,
    })
    body.on('error', () => undefined)
    await body
      .dump({ limit: answerLimits.bytes, signal: AbortSignal.timeout(answerLimits.ms) })
      .catch(() => undefined)
    if (statusCode >= 200 && statusCode < 300) return { result: 'delivered' }
    return { result: 'failed', problem: `it answered with status ${statusCode}, expected 2xx` }
  } catch (error) {
    if (signal.aborted) throw error
    if (deadline.aborted)
      return { result: 'failed', problem: `it gave no answer within ${bounds.attemptTimeoutMs / 1000} s` }
    const isRefused = error instanceof AddressRefused
    return {
      result: isRefused ? 'refused' : 'failed',
      problem: quoteServerText(errorMessage(error), target.credentials),
    }
  } finally {
    await agent.destroy()
  }
}

const webhookHeaders = (webhook: Webhook): Record<string, string> => ({
  'content-type': 'application/json',
  'webhook-id': webhook.id,
  'webhook-timestamp': String(unixSeconds(webhook.sentAt)),
  'webhook-signature': sign(webhook),
})

function sign({ secret, id, sentAt, body }: Webhook): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key)
    .update(`${id}.${unixSeconds(sentAt)}.${body}`)
    .digest('base64')
  return `v1,${signature}`
}

const unixSeconds = (instant: Date): number => Math.floor(instant.getTime() / 1000)
