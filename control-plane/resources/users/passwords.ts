import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { normalizeText } from '../../../shared/values/normalized-text.ts'
import type { SlotRequest } from '../../api/fair-semaphore.ts'
import { hashingSlots } from './hashing-slots.ts'

/**
 * Passwords as they are stored: Argon2id (RFC 9106) in the PHC string format, so that each hash knows its own
 * parameters. Computed on libuv's threads, few at once, since each takes 19 MiB and a thread that files need too.
 */

export const maxPasswordBytes = 1024

/** OWASP's least for Argon2id: 19 MiB, two passes, one lane. */
const parameters = { memory: 19_456, passes: 2, parallelism: 1 }
const tagLength = 32
const saltLength = 16

/** Two of one organization at once, as a third may be another's. */
const slots = hashingSlots({ maxRunning: 3, maxWaitingPerOrganization: 200 })

const compute = promisify(argon2)

/** In the PHC format. Throws 429 and 503 when it has no turn to be computed (FairSemaphore). */
export async function hashPassword(password: string, of: SlotRequest): Promise<string> {
  const salt = randomBytes(saltLength)
  return format(parameters, salt, await computeTag(password, { ...parameters, salt, tagLength }, of))
}

/** Whether a password is the one that was hashed; takes as long for right and wrong ones. Throws as hashPassword. */
export async function isPassword(password: string, hash: string, of: SlotRequest): Promise<boolean> {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/.exec(hash)
  if (match === null) throw new Error('a stored password hash is no Argon2id hash in the PHC format')
  const [memory, passes, parallelism] = match.slice(1, 4).map(Number) as [number, number, number]
  const tag = Buffer.from(match[5]!, 'base64')
  const salt = Buffer.from(match[4]!, 'base64')
  const options = { memory, passes, parallelism, salt, tagLength: tag.length }
  return timingSafeEqual(await computeTag(password, options, of), tag)
}

/** A hash that no password has, to be compared with where there is no user: that takes as long as with one. */
export const nobodysHash = format(parameters, randomBytes(saltLength), randomBytes(tagLength))

function format({ memory, passes, parallelism }: typeof parameters, salt: Buffer, tag: Buffer): string {
  const base64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '')
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`
}

function computeTag(
  password: string,
  { salt, ...options }: typeof parameters & { salt: Buffer; tagLength: number },
  of: SlotRequest,
): Promise<Buffer> {
  // One password may be typed as different sequences of code points on different machines.
  // One unit more than any stored password has: a longer one is wrong, and costs the same.
  const message = normalizeText(password.slice(0, maxPasswordBytes + 1), 'NFC')
  return slots.run(of, () => compute('argon2id', { message, nonce: salt, ...options }))
}
