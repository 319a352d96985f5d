import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, errorMessage, StartError } from '../contract/errors.ts'
import { endedStates, hasEnded } from '../contract/import-state.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import type { Settings } from '../runtime/config.ts'
import { maskPassword, type Logger } from '../runtime/logger.ts'
import { callbackWithoutSecrets, withoutSecrets } from '../runtime/masked-url.ts'
import { createPrivateFile } from '../runtime/private-file.ts'
import type { MarkedFolder } from '../storage/staging/marked-folder.ts'

/**
 * Secrets of imports: passwords and tokens in the URLs of their sources and callbacks, and the secrets that sign the
 * callbacks. While an import needs them, `sealed` has them encrypted, and its other fields show the URLs without them.
 * Imports of a control plane without a key have them in the clear. They are dropped when the import and its callback are
 * done.
 *
 * They are encrypted with AES-256-GCM. The keys are in a file outside of the database, one per line, 32 bytes as base64.
 * The first key encrypts and all keys decrypt, so a key is replaced by adding a new first line.
 */

type ImportWithSecrets = Pick<ImportDocument, '_id' | 'source' | 'callback' | 'sealed'>

interface ImportSecrets {
  url: string | null
  callback: { url: string; secret: string } | null
}

/** Encrypts the secrets of an import before it is stored. Without a key they stay in the clear. */
export function sealed<T extends ImportWithSecrets>(document: T, box: SecretBox): T {
  const { source, callback } = document
  const url = source.url === null ? null : withoutSecrets(source.url)
  const hasSecrets = callback !== null || url !== source.url
  if (!hasSecrets || !box.canSeal) return { ...document, has_secrets: hasSecrets }
  const text = JSON.stringify({ url: source.url, callback })
  return {
    ...document,
    source: { ...source, url },
    callback: callback === null ? null : { url: callbackWithoutSecrets(callback.url) },
    sealed: box.seal(text, sealOwner(document)),
    has_secrets: true,
  }
}

/** Throws CannotUnseal when the secrets can't be decrypted. */
export async function openSecrets(document: ImportWithSecrets, box: SecretBox): Promise<ImportSecrets> {
  const { source, callback } = document
  if (document.sealed !== undefined)
    return JSON.parse(await box.open(document.sealed, sealOwner(document))) as ImportSecrets
  return {
    url: source.url,
    callback: callback?.secret === undefined ? null : { url: callback.url, secret: callback.secret },
  }
}

const sealOwner = ({ _id }: ImportWithSecrets): string => `import ${_id}`

export interface ShownUrls {
  url: string | null
  callbackUrl: string | null
}

/**
 * The URLs in replies. Until the import ends they are shown as given, but with `***` for a password. After its end, or
 * when they can't be decrypted, everything that may be secret is masked.
 */
export async function shownUrls(
  document: ImportWithSecrets & Pick<ImportDocument, 'state'>,
  box: SecretBox,
): Promise<ShownUrls> {
  const { source, callback, state } = document
  const whole = hasEnded(state) ? null : await openSecrets(document, box).catch(() => null)
  const [shown, shownCallback] =
    whole === null ? [withoutSecrets, callbackWithoutSecrets] : [maskPassword, maskPassword]
  const url = whole?.url ?? source.url
  const callbackUrl = whole?.callback?.url ?? callback?.url ?? null
  return {
    url: url === null ? null : shown(url),
    callbackUrl: callbackUrl === null ? null : shownCallback(callbackUrl),
  }
}

/** Each write below is an optimistic lock on the values that were read: an import that changed meanwhile stays as it is. */
const projection = { _id: 1, source: 1, callback: 1, sealed: 1 } as const

const matchUrls = ({ _id, source, callback }: ImportDocument) => ({
  _id,
  'source.url': source.url,
  'callback.url': callback?.url ?? null,
})

/**
 * Removes the secrets of an ended import that has no callback, or whose callback is no longer waiting. False when the
 * import still needs them, or has none.
 */
export async function dropSecrets({ imports, callbacks }: Collections, id: number): Promise<boolean> {
  const ended = { state: { $in: [...endedStates] }, has_secrets: true }
  const document = await imports.findOne({ _id: id, ...ended }, { projection })
  if (document === null) return false
  const { source, callback } = document
  if (callback !== null && (await callbacks.findOne({ _id: id, state: 'waiting' })) !== null) return false
  const { modifiedCount } = await imports.updateOne(
    { ...matchUrls(document), ...ended },
    {
      $set: {
        has_secrets: false,
        'source.url': source.url === null ? null : withoutSecrets(source.url),
        ...(callback === null ? {} : { callback: { url: callbackWithoutSecrets(callback.url) } }),
      },
      $unset: { sealed: '' },
    },
  )
  return modifiedCount === 1
}

/** Ids of finalized imports that still have secrets. */
export async function* finalizedWithSecrets({ imports }: Collections): AsyncGenerator<number, void> {
  for await (const { _id } of imports.find(
    { finalized: true, has_secrets: true },
    { projection: { _id: 1 } },
  ))
    yield _id
}

/**
 * Encrypts the plain secrets of unfinished imports, which a process without a key has created.
 * Engines read both forms, so it may run beside them.
 */
export async function sealClearSecrets({ imports }: Collections, box: SecretBox, log: Logger): Promise<void> {
  if (!box.canSeal) return
  const clear = {
    finalized: false,
    state: { $nin: [...endedStates] },
    has_secrets: true,
    sealed: { $exists: false },
  }
  let encrypted = 0
  for await (const document of imports.find(clear, { projection })) {
    const { source, callback, has_secrets, sealed: bytes } = sealed(document, box)
    const written = { source, callback, has_secrets, ...(bytes === undefined ? {} : { sealed: bytes }) }
    const { modifiedCount } = await imports.updateOne({ ...clear, ...matchUrls(document) }, { $set: written })
    if (bytes !== undefined) encrypted += modifiedCount
  }
  if (encrypted > 0)
    log.info({ imports: encrypted }, 'encrypted the secrets of imports that were stored unencrypted')
}

const formatVersion = 1
const keyIdBytes = 8
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + keyIdBytes + nonceBytes + tagBytes

interface SecretKey {
  /** Derived from the key, and reveals nothing about it. */
  id: string
  key: Buffer
}

/** A sealed text can't be decrypted. The message tells users why, and what to do. */
export class CannotUnseal extends Error {
  override readonly name = 'CannotUnseal'
}

export class SecretBox {
  #keys: readonly SecretKey[]
  readonly #readKeys: () => Promise<readonly SecretKey[]>

  /** `readKeys` is called again for an unknown key, because another process may have got a new key first. */
  constructor(keys: readonly SecretKey[], readKeys: () => Promise<readonly SecretKey[]>) {
    this.#keys = keys
    this.#readKeys = readKeys
  }

  /** False when the process has no key. */
  get canSeal(): boolean {
    return this.#keys.length > 0
  }

  /** Reads the keys again. Throws when there are none. */
  async reload(): Promise<void> {
    this.#keys = await this.#readKeys()
  }

  /** Encrypts a text. It can be decrypted only with the same `owner`, which names what it belongs to. */
  seal(text: string, owner: string): Buffer {
    const [first] = this.#keys
    if (first === undefined) throw new Error('there is no key to encrypt with: check `canSeal` first')
    const { id, key } = first
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
    const head = Buffer.concat([Buffer.from([formatVersion]), Buffer.from(id, 'hex'), nonce])
    cipher.setAAD(Buffer.concat([head, Buffer.from(owner)]))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([head, cipher.getAuthTag(), sealed])
  }

  /** Decrypts a text. Throws CannotUnseal. */
  async open(sealed: Uint8Array, owner: string): Promise<string> {
    const bytes = Buffer.from(sealed)
    if (bytes.length < headBytes || bytes[0] !== formatVersion)
      throw new CannotUnseal('it is in a form that this version of Rollcall does not know')
    const id = bytes.toString('hex', 1, 1 + keyIdBytes)
    const key = await this.#findKey(id)
    if (key === undefined)
      throw new CannotUnseal(
        `it was encrypted with the key ${id}, which this process does not have: give all processes the same SECRETS_KEY_FILE, which must still have the earlier keys`,
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
      throw new CannotUnseal(
        `its data in the database was changed after it had been encrypted with the key ${id}: find out what changed it`,
      )
    }
  }

  async #findKey(id: string): Promise<Buffer | undefined> {
    const known = () => this.#keys.find((each) => each.id === id)?.key
    const key = known()
    if (key !== undefined) return key
    // When the file can't be read now, the known keys stay.
    this.#keys = await this.#readKeys().catch(() => this.#keys)
    return known()
  }
}

/**
 * Opens a box with the keys of `SECRETS_KEY_FILE`, or of `DATA_DIR/secrets.key`, which is created with `STAGING=disk`,
 * where all processes share DATA_DIR. The box has no key until the folder is available. Throws a StartError that names the file.
 */
export async function openSecretBox(
  settings: Pick<Settings, 'SECRETS_KEY_FILE' | 'DATA_DIR' | 'STAGING'>,
  log: Logger,
  folder: Pick<MarkedFolder, 'whenAvailable'>,
): Promise<SecretBox> {
  const { SECRETS_KEY_FILE: keyFileSetting, DATA_DIR, STAGING } = settings
  const file = keyFileSetting ?? defaultKeyFile(DATA_DIR)
  const sharesFolder = STAGING === 'disk'
  const box = new SecretBox([], () => readKeys(file))
  try {
    if (keyFileSetting === undefined)
      await folder.whenAvailable(async () => {
        if (sharesFolder) await createSecretsKey(DATA_DIR)
        // A copy or a restored backup may have lost the mode.
        await chmod(file, 0o600)
        await box.reload()
      })
    else await box.reload()
    return box
  } catch (error) {
    if (keyFileSetting === undefined && !sharesFolder && errorCode(error) === 'ENOENT') {
      log.warn(
        'passwords in URLs and secrets of callbacks are stored in the clear until their imports end, because there is no key to encrypt them: set SECRETS_KEY_FILE to a file that all control planes and engines have (docs/operating.md)',
      )
      return box
    }
    const name = keyFileSetting === undefined ? 'the key file' : 'SECRETS_KEY_FILE'
    throw new StartError(
      `${name} ${file} can't be used: ${errorMessage(error)}; it must have at least one key, one per line, each made by: openssl rand -base64 32`,
      { cause: error },
    )
  }
}

const defaultKeyFile = (dataFolder: string): string => path.join(dataFolder, 'secrets.key')

/** Creates the default key file, unless it exists. */
export const createSecretsKey = (dataFolder: string): Promise<void> =>
  createPrivateFile(defaultKeyFile(dataFolder), `${randomBytes(32).toString('base64')}\n`)

/** Blank lines are skipped. Error messages don't quote the file. */
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
