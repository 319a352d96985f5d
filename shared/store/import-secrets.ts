import { callbackWithoutSecrets, sealed, withoutSecrets } from '../runtime/seal-import-secrets.ts'
import { endedStates } from '../contract/import-state.ts'
import type { Logger } from '../runtime/logger.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import type { SecretBox } from '../runtime/secret-box.ts'

/**
 * Secrets of imports in the database; shared/runtime/seal-import-secrets.ts encrypts them. Each write is an optimistic
 * lock on the values that were read, so it leaves an import alone that was encrypted or ended meanwhile.
 */

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
  const hasEnded = { state: { $in: [...endedStates] }, has_secrets: true }
  const document = await imports.findOne({ _id: id, ...hasEnded }, { projection })
  if (document === null) return false
  const { source, callback } = document
  if (callback !== null && (await callbacks.findOne({ _id: id, state: 'waiting' })) !== null) return false
  const { modifiedCount } = await imports.updateOne(
    { ...matchUrls(document), ...hasEnded },
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
