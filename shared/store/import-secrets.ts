import { callbackWithoutSecrets, sealed, withoutSecrets } from '../runtime/import-secrets.ts'
import { endedStates } from '../contract/import-state.ts'
import type { Logger } from '../runtime/logger.ts'
import type { Collections } from '../contract/schemas/collections.ts'
import type { ImportDocument } from '../contract/schemas/import.ts'
import type { SecretBox } from '../runtime/secret-box.ts'

/**
 * Secrets of imports in the database (import-secrets.ts). Each write is guarded by what was read, so an import that was
 * encrypted or ended meanwhile is left as it is.
 */

const projection = { _id: 1, source: 1, callback: 1, sealed: 1 } as const

const asRead = ({ _id, source, callback }: ImportDocument) => ({
  _id,
  'source.url': source.url,
  'callback.url': callback?.url ?? null,
})

/**
 * Drops the secrets of an ended import whose callback was entered and isn't waiting any more, or that has none. False
 * when it needs them still, or has none.
 */
export async function dropSecrets({ imports, callbacks }: Collections, id: number): Promise<boolean> {
  const hasEnded = { state: { $in: [...endedStates] }, has_secrets: { $ne: false } }
  const document = await imports.findOne({ _id: id, ...hasEnded }, { projection })
  if (document === null) return false
  const { source, callback } = document
  if (callback !== null && (await callbacks.findOne({ _id: id, state: 'waiting' })) !== null) return false
  const { modifiedCount } = await imports.updateOne(
    { ...asRead(document), ...hasEnded },
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

/** Imports for which nothing is left to do but, perhaps, to drop their secrets. */
export async function* finalizedWithSecrets({ imports }: Collections): AsyncGenerator<number, void> {
  const settled = { settled: true, has_secrets: { $ne: false } }
  // Imports of an earlier version, most of which have none.
  await imports.updateMany(
    { ...settled, 'source.url': null, callback: null },
    { $set: { has_secrets: false } },
  )
  for await (const { _id } of imports.find(settled, { projection: { _id: 1 } })) yield _id
}

/**
 * Encrypts what unfinished imports hold in the clear: those of an earlier version, and those that were created without a
 * key. Engines read both forms, so it may be done while they run.
 */
export async function sealClearSecrets({ imports }: Collections, box: SecretBox, log: Logger): Promise<void> {
  if (!box.canSeal) return
  const clear = {
    settled: false,
    state: { $nin: [...endedStates] },
    has_secrets: { $ne: false },
    sealed: { $exists: false },
  }
  let encrypted = 0
  for await (const document of imports.find(clear, { projection })) {
    const { source, callback, has_secrets, sealed: bytes } = sealed(document, box)
    const written = { source, callback, has_secrets, ...(bytes === undefined ? {} : { sealed: bytes }) }
    const { modifiedCount } = await imports.updateOne({ ...clear, ...asRead(document) }, { $set: written })
    if (bytes !== undefined) encrypted += modifiedCount
  }
  if (encrypted > 0)
    log.info({ imports: encrypted }, 'encrypted the secrets of imports that were in the clear')
}
