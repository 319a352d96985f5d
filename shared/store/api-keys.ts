import { createHmac, randomBytes } from 'node:crypto'
import { clock } from '../runtime/clock.ts'
import { isAdminRole, type ApiKeyDocument, type Role } from '../contract/schemas/api-key.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import { permissionValues, type Permissions, type UserDocument } from '../contract/schemas/user.ts'
import { minuteMs } from '../values/durations.ts'
import { clientNetwork } from '../values/ip.ts'
import type { Logger } from '../runtime/logger.ts'

/**
 * API keys, as the control plane and the FTP server check them. The database stores only the HMAC of a key under a
 * secret of the installation. A check is one look-up of that HMAC, so its duration reveals nothing about other keys.
 */

/** The authenticated caller. A key of a user has the role and the permissions of that user. */
export interface Caller extends KeyHolder {
  keyName: string
  permissions: Permissions
  userId: number | null
  /** Full name of the user. */
  userName: string | null
}

/** Whose key acts, and from where, as lines of the log name it. */
export const actorFields = (
  { organizationId, keyId, userId }: Pick<Caller, 'keyId' | 'organizationId' | 'userId'>,
  address: string,
) => ({
  ...{ organization_id: organizationId, api_key_id: keyId },
  ...(userId === null ? {} : { user_id: userId }),
  address,
})

/** A key, and what its session or transfer depends on. */
export interface KeyHolder {
  keyId: number
  organizationId: number
  role: Role
  /** The only folder of the upload directory that the key sees; null for all of it. */
  uploadsFolder: string | null
}

/** Uploading is the first half of importing, so it needs the permission to import, or the role that only uploads. */
export const mayUpload = ({ role, permissions }: Caller): boolean =>
  role === 'uploads' || permissions['subscriber']?.includes('import') === true

export const keyPattern = /^[\w-]{16,128}$/

/** A new key with 192 random bits. Its letters and digits need no escaping in shells, URLs and FTP. */
export function generateKey(): string {
  return `rollcall_${BigInt(`0x${randomBytes(24).toString('hex')}`).toString(36)}`
}

/** HMAC-SHA-256, 32 bytes. It is stored in place of the key. */
export function hashKey(key: string, secret: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(key).digest()
}

/** The secret of the installation. The first call creates it. */
export async function keyHashSecret(collections: Collections): Promise<Uint8Array> {
  await collections.installation.updateOne(
    { _id: 'installation' },
    { $setOnInsert: { key_hash_secret: randomBytes(32), credentials_revision: 0 } },
    { upsert: true },
  )
  const document = await collections.installation.findOne({ _id: 'installation' })
  if (document === null) throw new Error('the document of the installation was removed')
  return document.key_hash_secret
}

/** The caller of a key; null for a wrong or inactive key, and for a key of an inactive user. */
export async function findCaller(
  collections: Collections,
  secret: Uint8Array,
  key: string,
): Promise<Caller | null> {
  if (!keyPattern.test(key)) return null
  const document = await collections.apiKeys.findOne({ key_hash: hashKey(key, secret), active: true })
  if (document === null) return null
  const caller = await callerOf(collections, document)
  if (caller !== null) recordUse(collections, document)
  return caller
}

/** How far `last_used_at` may lag: a key costs one write in this time. */
const lastUsedMs = 10 * minuteMs

/** Doesn't wait for the write, which fails silently: nothing depends on it. */
function recordUse({ apiKeys }: Collections, { _id, last_used_at: usedAt }: ApiKeyDocument): void {
  if (usedAt !== undefined && clock.now().getTime() - usedAt.getTime() < lastUsedMs) return
  const isOld = { $lt: ['$last_used_at', { $subtract: ['$$NOW', lastUsedMs] }] }
  void apiKeys.updateOne({ _id, $expr: isOld }, [{ $set: { last_used_at: '$$NOW' } }]).catch(() => undefined)
}

/** Whose key was refused, for the log; null for a key that was never made, or was deleted. */
export async function findRefusedKey(
  { apiKeys }: Collections,
  secret: Uint8Array,
  key: string,
): Promise<Pick<Caller, 'keyId' | 'organizationId' | 'userId'> | null> {
  if (!keyPattern.test(key)) return null
  const found = await apiKeys.findOne(
    { key_hash: hashKey(key, secret) },
    { projection: { organization_id: 1, user_id: 1 } },
  )
  return found === null
    ? null
    : { keyId: found._id, organizationId: found.organization_id, userId: found.user_id }
}

/** The caller with its current permissions; null when the user of the key is inactive. */
async function callerOf(collections: Collections, key: ApiKeyDocument): Promise<Caller | null> {
  const { user_id: userId } = key
  return buildCaller(
    key,
    userId === null ? null : await collections.users.findOne({ _id: userId, active: true }),
  )
}

function buildCaller(key: ApiKeyDocument, user: UserDocument | null | undefined): Caller | null {
  const { _id: keyId, name: keyName, organization_id: organizationId, user_id: userId } = key
  const holder = userId === null ? { role: key.role, permissions: {} } : user
  if (holder === null || holder === undefined) return null
  const { role } = holder
  const permissions = isAdminRole(role) ? permissionValues : holder.permissions
  const uploadsFolder = role === 'uploads' ? (key.uploads_folder ?? null) : null
  const userName = user?.full_name ?? null
  return { keyId, keyName, organizationId, role, uploadsFolder, permissions, userId, userName }
}

/**
 * The callers of several keys whose sessions or transfers go on, which is a use of them, by key id. Inactive keys and keys
 * of inactive users are missing.
 */
export async function callersByKey(
  collections: Collections,
  keyIds: number[],
  signal: AbortSignal,
): Promise<Map<number, Caller>> {
  const keys = await collections.apiKeys.find({ _id: { $in: keyIds }, active: true }, { signal }).toArray()
  const userIds = keys.flatMap(({ user_id: userId }) => userId ?? [])
  const users =
    userIds.length === 0
      ? []
      : await collections.users.find({ _id: { $in: userIds }, active: true }, { signal }).toArray()
  const usersById = new Map(users.map((user) => [user._id, user]))
  return new Map(
    keys.flatMap((key) => {
      const caller = buildCaller(key, key.user_id === null ? null : usersById.get(key.user_id))
      if (caller !== null) recordUse(collections, key)
      return caller === null ? [] : [[key._id, caller]]
    }),
  )
}

/** Blocked addresses that one process remembers. */
const maxBlocked = 10_000

/**
 * Rate limit of wrong credentials by address. After too many of them all further wrong ones of the address are refused
 * until its minute is over. Right ones always pass: keys can't be guessed, and a partner's typing mistake must not stop
 * an organization behind the same address. All processes count together. An IPv6 address counts as its /64 network.
 */
export class AuthThrottle {
  readonly #collections: Collections
  readonly #limit: number
  readonly #log: Logger
  /** Until when (`clock.monotonicMs`) addresses are blocked, so that a flood of wrong credentials isn't counted. */
  readonly #blockedUntil = new Map<string, number>()

  constructor(collections: Collections, failuresPerMinute: number, log: Logger) {
    this.#collections = collections
    this.#limit = failuresPerMinute
    this.#log = log
  }

  /** Counts a wrong credential. */
  async recordFailure(client: string): Promise<CountedFailure> {
    const address = clientNetwork(client)
    const leftMs = (this.#blockedUntil.get(address) ?? 0) - clock.monotonicMs()
    if (leftMs > 0) return { blockedSeconds: Math.ceil(leftMs / 1_000), isLogged: false }
    this.#blockedUntil.delete(address)
    const { count, seconds } = await this.#count(address)
    if (count <= this.#limit) return { blockedSeconds: 0, isLogged: true }
    if (this.#blockedUntil.size >= maxBlocked) this.#blockedUntil.clear()
    this.#blockedUntil.set(address, clock.monotonicMs() + seconds * 1_000)
    const beginsBlock = count === this.#limit + 1
    if (beginsBlock)
      this.#log.warn(
        { address: client },
        `more than ${this.#limit} wrong credentials came from this address within a minute: further ones are refused for ${seconds} s, right ones pass`,
      )
    return { blockedSeconds: seconds, isLogged: beginsBlock }
  }

  /** Uses the database's clock, as the clocks of several processes may differ by more than a minute. */
  async #count(address: string): Promise<CountedFailures> {
    const isSameMinute = { $gt: ['$until', '$$NOW'] }
    const counted = await this.#collections.authFailures.findOneAndUpdate(
      { _id: address },
      [
        {
          $set: {
            count: { $cond: [isSameMinute, { $add: ['$count', 1] }, 1] },
            until: { $cond: [isSameMinute, '$until', { $add: ['$$NOW', 60_000] }] },
          },
        },
      ],
      {
        upsert: true,
        returnDocument: 'after',
        projection: {
          count: 1,
          seconds: { $max: [0, { $ceil: { $divide: [{ $subtract: ['$until', '$$NOW'] }, 1000] } }] },
        },
      },
    )
    return counted as unknown as CountedFailures
  }
}

export interface CountedFailure {
  /** How long the address is blocked; 0 when it isn't. */
  blockedSeconds: number
  /** While an address is blocked, only the refusal that began the block is logged. */
  isLogged: boolean
}

interface CountedFailures {
  count: number
  /** Remaining seconds of the minute in which they count. */
  seconds: number
}
