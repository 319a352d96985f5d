import { createHmac, randomBytes } from 'node:crypto'
import { clock } from '../runtime/clock.ts'
import type { ApiKeyDocument, Role } from '../contract/schemas/api-key.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import { permissionValues, type Permissions, type UserDocument } from '../contract/schemas/user.ts'
import { networkOf } from '../values/ip.ts'

/**
 * API keys, as the control plane and the FTP server check them. What is stored of a key is its HMAC under a secret of
 * the installation; looking that up is the whole check, so its time tells nothing about other keys.
 */

/** Who calls, with the role and the permissions that are in force: the user's, where the key belongs to one. */
export interface Caller {
  keyId: number
  organizationId: number
  role: Role
  permissions: Permissions
  userId: number | null
}

export const keyPattern = /^[\w-]{16,128}$/

const allPermissions: Permissions = permissionValues

/** A new key: 192 random bits, letters and digits only, so that it survives shells, URLs and FTP servers. */
export function generateKey(): string {
  return `rollcall_${BigInt(`0x${randomBytes(24).toString('hex')}`).toString(36)}`
}

/** HMAC-SHA-256, 32 bytes: what is stored in place of a key. */
export function hashKey(key: string, secret: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(key).digest()
}

/** The secret of the installation, made by whoever asks first. */
export async function keyHashSecret(collections: Collections): Promise<Uint8Array> {
  await collections.installation.updateOne(
    { _id: 'installation' },
    { $setOnInsert: { key_hash_secret: randomBytes(32), credentials_revision: 0 } },
    { upsert: true },
  )
  const document = await collections.installation.findOne({ _id: 'installation' })
  return document!.key_hash_secret
}

/** The caller that a key stands for; null for a key that is wrong, inactive, or of a user who is. */
export async function findCaller(
  collections: Collections,
  secret: Uint8Array,
  key: string,
): Promise<Caller | null> {
  if (!keyPattern.test(key)) return null
  const document = await collections.apiKeys.findOne({ key_hash: hashKey(key, secret), active: true })
  return document === null ? null : callerOf(collections, document)
}

/** What a key may do now; null when its user may do nothing. */
export async function callerOf(collections: Collections, key: ApiKeyDocument): Promise<Caller | null> {
  const { user_id: userId } = key
  return callerFor(
    key,
    userId === null ? null : await collections.users.findOne({ _id: userId, active: true }),
  )
}

function callerFor(key: ApiKeyDocument, user: UserDocument | null | undefined): Caller | null {
  const { _id: keyId, organization_id: organizationId, user_id: userId } = key
  if (userId === null)
    return { keyId, organizationId, role: key.role, permissions: permissionsOf(key.role, {}), userId }
  if (user === null || user === undefined) return null
  return {
    keyId,
    organizationId,
    role: user.role,
    permissions: permissionsOf(user.role, user.permissions),
    userId,
  }
}

/** What several keys may do now, by their ids; those that may do nothing are missing. */
export async function callersByKey(
  collections: Collections,
  keyIds: number[],
  signal: AbortSignal,
): Promise<Map<number, Caller>> {
  const keys = await collections.apiKeys.find({ _id: { $in: keyIds }, active: true }, { signal }).toArray()
  const userIds = keys.flatMap(({ user_id: userId }) => userId ?? [])
  const users = userIds.length === 0 ? [] : await activeUsers(collections, userIds, signal)
  const usersById = new Map(users.map((user) => [user._id, user]))
  return new Map(
    keys.flatMap((key) => {
      const caller = callerFor(key, key.user_id === null ? null : usersById.get(key.user_id))
      return caller === null ? [] : [[key._id, caller]]
    }),
  )
}

const activeUsers = (collections: Collections, ids: number[], signal: AbortSignal) =>
  collections.users.find({ _id: { $in: ids }, active: true }, { signal }).toArray()

function permissionsOf(role: Role, own: Permissions): Permissions {
  return role === 'standard' ? own : allPermissions
}

/** What other processes counted against an address is seen so much later. */
const believedMs = 1_000
const maxCachedKeys = 10_000

/**
 * Counts a wrong credential from an address, and tells whether there were too many of them: then everything from there
 * is refused until its minute is over. All processes count together. An IPv6 address counts with its whole /64.
 */
export class AuthThrottle {
  readonly #collections: Collections
  readonly #limit: number
  /** Addresses that weren't refused just now, with the time until which that is believed. */
  readonly #free = new Map<string, number>()
  #noted = 0

  constructor(collections: Collections, failuresPerMinute: number) {
    this.#collections = collections
    this.#limit = failuresPerMinute
  }

  /** Seconds for which the address is still refused; 0 when it isn't. */
  async blockedSeconds(client: string): Promise<number> {
    const address = networkOf(client)
    const untilMs = clock.monotonicMs() + believedMs
    if (clock.monotonicMs() < (this.#free.get(address) ?? 0)) return 0
    this.#free.delete(address)
    const notedBefore = this.#noted
    const failures = await this.#collections.authFailures.findOne<CountedFailures>(
      { _id: address },
      { projection: countedFailures },
    )
    const seconds = failures !== null && failures.count > this.#limit ? failures.seconds : 0
    if (seconds === 0 && this.#noted === notedBefore) {
      if (this.#free.size >= maxCachedKeys) this.#free.clear()
      this.#free.set(address, untilMs)
    }
    return seconds
  }

  /** Notes a failure; resolves as `blockedSeconds` does. */
  async noteFailure(client: string): Promise<number> {
    const address = networkOf(client)
    const isSameMinute = { $gt: ['$until', '$$NOW'] }
    const failures = (await this.#collections.authFailures.findOneAndUpdate(
      { _id: address },
      [
        {
          $set: {
            count: { $cond: [isSameMinute, { $add: ['$count', 1] }, 1] },
            until: { $cond: [isSameMinute, '$until', { $add: ['$$NOW', 60_000] }] },
          },
        },
      ],
      { upsert: true, returnDocument: 'after', projection: countedFailures },
    )) as unknown as CountedFailures
    this.#noted += 1
    this.#free.delete(address)
    return failures.count > this.#limit ? failures.seconds : 0
  }
}

interface CountedFailures {
  count: number
  /** Until their minute is over. */
  seconds: number
}

/** By the database's clock, which set the end: those of several processes may differ by more than a minute. */
const countedFailures = {
  count: 1,
  seconds: { $max: [0, { $ceil: { $divide: [{ $subtract: ['$until', '$$NOW'] }, 1000] } }] },
}
