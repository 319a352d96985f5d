import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Settings } from './config.ts'
import { messageOf, StartError } from '../contract/errors.ts'
import type { Logger } from './logger.ts'
import type { MarkedFolder } from '../storage/staging/marked-folder.ts'
import { makePrivately } from './private-file.ts'

/**
 * Encrypts what the database must not show, with AES-256-GCM and keys that are kept outside of it: one key a line of a
 * file, 32 bytes as base64. The first key seals; all of them open, so a key is replaced by a new first line.
 */

const version = 1
const keyIdBytes = 8
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes

export interface SecretKey {
  /** Derived from the key; tells nothing about it. */
  id: string
  key: Buffer
}

/** What was sealed can't be opened. The message says why and what to do, for users. */
export class NotOpened extends Error {
  override readonly name = 'NotOpened'
}

export class SecretBox {
  #keys: readonly SecretKey[]
  readonly #readKeys: () => Promise<readonly SecretKey[]>

  /** `readKeys` is asked again for a key that isn't known yet: another process may have been given it first. */
  constructor(keys: readonly SecretKey[], readKeys: () => Promise<readonly SecretKey[]>) {
    this.#keys = keys
    this.#readKeys = readKeys
  }

  /** False where the process has no key at all. */
  get canSeal(): boolean {
    return this.#keys.length > 0
  }

  /** Reads the keys anew. Throws where there are none. */
  async reload(): Promise<void> {
    this.#keys = await this.#readKeys()
  }

  /** `owner` says what the text belongs to: under another owner it can't be opened. */
  seal(text: string, owner: string): Buffer {
    const { id, key } = this.#keys[0]!
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    const head = Buffer.concat([Buffer.from([version]), Buffer.from(id, 'hex'), nonce])
    cipher.setAAD(Buffer.concat([head, Buffer.from(owner)]))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([head, cipher.getAuthTag(), sealed])
  }

  /** Throws NotOpened. */
  async open(sealed: Uint8Array, owner: string): Promise<string> {
    const bytes = Buffer.from(sealed)
    if (bytes.length < headBytes || bytes[0] !== version)
      throw new NotOpened('it is in a form that this version of Rollcall does not know')
    const id = bytes.toString('hex', 1, 1 + keyIdBytes)
    const key = await this.#keyOf(id)
    if (key === undefined)
      throw new NotOpened(
        `it was encrypted with the key ${id}, which this process does not have: give all processes the same SECRETS_KEY_FILE, with the keys of before in it`,
      )
    const tagAt = 1 + keyIdBytes + nonceBytes
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(1 + keyIdBytes, tagAt), {
      authTagLength: tagBytes,
    })
    decipher.setAAD(Buffer.concat([bytes.subarray(0, tagAt), Buffer.from(owner)]))
    decipher.setAuthTag(bytes.subarray(tagAt, headBytes))
    try {
      return decipher.update(bytes.subarray(headBytes), undefined, 'utf8') + decipher.final('utf8')
    } catch {
      throw new NotOpened(
        `it was changed in the database after it had been encrypted with the key ${id}: find out by whom`,
      )
    }
  }

  async #keyOf(id: string): Promise<Buffer | undefined> {
    const known = () => this.#keys.find((each) => each.id === id)?.key
    const key = known()
    if (key !== undefined) return key
    // A file that can't be read just now leaves the keys as they are.
    this.#keys = await this.#readKeys().catch(() => this.#keys)
    return known()
  }
}

/**
 * With the keys of `SECRETS_KEY_FILE`, or of `DATA_DIR/secrets.key`, which is made where all processes share DATA_DIR. It
 * has no key until the folder is available. Throws a StartError that names the file.
 */
export async function openSecretBox(
  settings: Pick<Settings, 'SECRETS_KEY_FILE' | 'DATA_DIR' | 'STAGING' | 'MONGODB_URI'>,
  log: Logger,
  folder: Pick<MarkedFolder, 'whenAvailable'>,
): Promise<SecretBox> {
  const { SECRETS_KEY_FILE: given, DATA_DIR, STAGING, MONGODB_URI } = settings
  const file = given ?? path.join(DATA_DIR, 'secrets.key')
  const sharesFolder = MONGODB_URI === undefined || STAGING === 'disk'
  const box = new SecretBox([], () => readKeys(file))
  try {
    if (given === undefined)
      await folder.whenAvailable(async () => {
        if (sharesFolder) await makePrivately(file, `${newKey()}\n`)
        // A copy or a restored backup may have lost the mode.
        await chmod(file, 0o600)
        await box.reload()
      })
    else await box.reload()
    return box
  } catch (error) {
    if (given === undefined && !sharesFolder && (error as NodeJS.ErrnoException).code === 'ENOENT') {
      log.warn(
        'passwords in URLs and secrets of callbacks are stored in the clear until their imports end, as there is no key to encrypt them: set SECRETS_KEY_FILE to a file that all control planes and engines have (docs/operating.md)',
      )
      return box
    }
    const name = given === undefined ? 'the key file' : 'SECRETS_KEY_FILE'
    throw new StartError(
      `${name} ${file} can't be used: ${messageOf(error)}; it must have one key or more, one a line, each made by: openssl rand -base64 32`,
      { cause: error },
    )
  }
}

const newKey = (): string => randomBytes(32).toString('base64')

/** Blank lines are skipped. No message quotes the file. */
async function readKeys(file: string): Promise<SecretKey[]> {
  const lines = (await readFile(file, 'utf8'))
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (lines.length === 0) throw new Error('it is empty')
  return lines.map((line, i) => {
    if (!/^[A-Za-z0-9+/]{43}=$/.test(line)) throw new Error(`line ${i + 1} is not 32 bytes as base64`)
    return secretKey(Buffer.from(line, 'base64'))
  })
}

export function secretKey(key: Buffer): SecretKey {
  const id = createHmac('sha256', key)
    .update('rollcall key id')
    .digest('hex')
    .slice(0, keyIdBytes * 2)
  return { id, key }
}
