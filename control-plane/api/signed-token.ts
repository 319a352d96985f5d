import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * Signed tokens (HMAC) carry a payload, and only this service can make them. Nothing is stored for them, and they are
 * valid as long as the installation's secret. The purpose is signed too, so a token of one kind is invalid as another.
 */

const macBytes = 16
const shape = /^([\w-]{1,500})\.[\w-]{22}$/

export function signToken(secret: Uint8Array, purpose: string, payload: string): string {
  return `${Buffer.from(payload).toString('base64url')}.${mac(secret, purpose, payload).toString('base64url')}`
}

/** Returns a token's payload; null when the token wasn't made for this purpose. */
export function readToken(secret: Uint8Array, purpose: string, token: string): string | null {
  const [, encoded] = shape.exec(token) ?? []
  if (encoded === undefined) return null
  const payload = Buffer.from(encoded, 'base64url').toString()
  // Base64 has several spellings of the same bytes. Comparing whole tokens accepts only the one that `signToken` makes.
  const expected = Buffer.from(signToken(secret, purpose, payload))
  const received = Buffer.from(token)
  return received.length === expected.length && timingSafeEqual(received, expected) ? payload : null
}

function mac(secret: Uint8Array, purpose: string, payload: string): Buffer {
  return createHmac('sha256', secret).update(`${purpose}\0${payload}`).digest().subarray(0, macBytes)
}

const unsubscription = 'unsubscribe'

/** The subscriber and the mail that an unsubscribe token was made for. */
export interface UnsubscribeToken {
  listId: number
  subscriberId: number
  messageId: string
}

export function unsubscribeToken(secret: Uint8Array, { listId, subscriberId, messageId }: UnsubscribeToken) {
  return signToken(secret, unsubscription, `${listId}:${subscriberId}:${messageId}`)
}

export function readUnsubscribeToken(secret: Uint8Array, token: string): UnsubscribeToken | null {
  const payload = readToken(secret, unsubscription, token) ?? ''
  const [, listId, subscriberId, messageId] = /^(\d+):(\d+):(.*)$/s.exec(payload) ?? []
  return messageId === undefined
    ? null
    : { listId: Number(listId), subscriberId: Number(subscriberId), messageId }
}
