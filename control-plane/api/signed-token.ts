import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * Tokens that say something and that only we can make: nothing is stored for them, and they end only with the
 * installation's secret. What they are for goes into the signature, so that one of a kind is none of another.
 */

const macBytes = 16
const shape = /^([\w-]{1,500})\.[\w-]{22}$/

export function signToken(secret: Uint8Array, purpose: string, payload: string): string {
  return `${Buffer.from(payload).toString('base64url')}.${mac(secret, purpose, payload).toString('base64url')}`
}

/** What a token says; null when it isn't one that was made for this purpose. */
export function readToken(secret: Uint8Array, purpose: string, token: string): string | null {
  const match = shape.exec(token)
  if (match === null) return null
  const payload = Buffer.from(match[1]!, 'base64url').toString()
  // Base64 has several spellings of the same bytes: the whole token is compared, so only ours is one.
  const ours = Buffer.from(signToken(secret, purpose, payload))
  const given = Buffer.from(token)
  return given.length === ours.length && timingSafeEqual(given, ours) ? payload : null
}

function mac(secret: Uint8Array, purpose: string, payload: string): Buffer {
  return createHmac('sha256', secret).update(`${purpose}\0${payload}`).digest().subarray(0, macBytes)
}

const unsubscription = 'unsubscribe'

/** Whom a mail's unsubscribe token is for, and the mail. */
export interface UnsubscribeToken {
  listId: number
  subscriberId: number
  messageId: string
}

export function unsubscribeToken(secret: Uint8Array, { listId, subscriberId, messageId }: UnsubscribeToken) {
  return signToken(secret, unsubscription, `${listId}:${subscriberId}:${messageId}`)
}

export function readUnsubscribeToken(secret: Uint8Array, token: string): UnsubscribeToken | null {
  const match = /^(\d+):(\d+):(.*)$/s.exec(readToken(secret, unsubscription, token) ?? '')
  return match === null
    ? null
    : { listId: Number(match[1]), subscriberId: Number(match[2]), messageId: match[3]! }
}
