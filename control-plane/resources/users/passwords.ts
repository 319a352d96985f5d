import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { normalizeText } from '../../../shared/values/normalized-text.ts'
import type { Caller } from '../../../shared/store/api-keys.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** Password hashes: Argon2id (RFC 9106) in the PHC string format, in which each hash names its parameters. */

export const maxPasswordBytes = 1024

/** Runs the computation of a hash in a slot. Throws 429 and 503 when it gets none. */
export type RunInSlot = <T>(compute: () => Promise<T>) => Promise<T>

export const hashingSlot =
  ({ slots }: ControlPlane, { organizationId }: Caller, clientGone?: AbortSignal): RunInSlot =>
  (compute) =>
    slots.passwords.run({ organizationId, clientGone }, compute)

/** OWASP's minimum for Argon2id: 19 MiB, two passes, one lane. */
const parameters = { memory: 19_456, passes: 2, parallelism: 1 }
const tagLength = 32
const saltLength = 16

const compute = promisify(argon2)

/** A hash in the PHC format. Throws as `runInSlot`. */
export async function hashPassword(password: string, runInSlot: RunInSlot): Promise<string> {
  const salt = randomBytes(saltLength)
  return format(parameters, salt, await computeTag(password, { ...parameters, salt, tagLength }, runInSlot))
}

/** Whether the password has this hash. Takes the same time for right and wrong ones. Throws as hashPassword. */
export async function isPassword(password: string, hash: string, runInSlot: RunInSlot): Promise<boolean> {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/.exec(hash)
  if (match === null) throw new Error('a stored password hash is no Argon2id hash in the PHC format')
  const [, memory, passes, parallelism, saltText = '', tagText = ''] = match
  const tag = Buffer.from(tagText, 'base64')
  const options = {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(saltText, 'base64'),
    tagLength: tag.length,
  }
  return timingSafeEqual(await computeTag(password, options, runInSlot), tag)
}

/** A hash that no password matches. Comparing with it makes an unknown user cost as much as a known one. */
export const unmatchableHash = format(parameters, randomBytes(saltLength), randomBytes(tagLength))

function format({ memory, passes, parallelism }: typeof parameters, salt: Buffer, tag: Buffer): string {
  const base64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '')
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`
}

function computeTag(
  password: string,
  { salt, ...options }: typeof parameters & { salt: Buffer; tagLength: number },
  runInSlot: RunInSlot,
): Promise<Buffer> {
  // Normalized, because machines encode the same typed password differently. Cut one unit above the maximum: a longer
  // password is wrong in any case, and costs the same.
  const message = normalizeText(password.slice(0, maxPasswordBytes + 1), 'NFC')
  return runInSlot(() => compute('argon2id', { message, nonce: salt, ...options }))
}
