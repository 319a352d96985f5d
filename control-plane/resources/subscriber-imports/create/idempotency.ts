import { createHash } from 'node:crypto'
import { RequestError } from '../../../api/request-error.ts'
import type { IdempotencyDocument } from '../../../../shared/contract/schemas/bookkeeping.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import { CannotUnseal } from '../../../../shared/store/secrets.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { findReply } from '../../../store/idempotency-keys.ts'
import { usedWithOtherBody } from '../refusals.ts'
import type { CreatedImportView } from '../schemas.ts'
import type { CreationRequest } from './service.ts'

/**
 * A second request with the Idempotency-Key of an earlier one gets the reply to that, and creates no import. The reply is
 * stored in the transaction that creates the import. A record made before it, marked as begun, would stay behind a killed
 * control plane, and a repetition couldn't tell whether an import will follow. The reply isn't made again from the import,
 * whose state and counts have changed since. Refusals aren't stored: a client that removed their cause would get the old
 * one for a day.
 */

/** The id under which the reply is stored, of API key, list and Idempotency-Key. Null where the request has none. */
export const idempotencyId = (request: CreationRequest): string | null =>
  request.idempotencyKey === null
    ? null
    : digest(`${request.caller.keyId}\n${request.listContext.list._id}\n${request.idempotencyKey}`)

const digest = (content: string): string => createHash('sha256').update(content).digest('base64url')

/** Throws `validation_failed` for a key that was used with another body. */
export async function earlierReply(
  deps: ControlPlane,
  id: string | null,
  bodyDigest: string,
): Promise<CreatedImportView | null> {
  const earlier = id === null ? null : await findReply(deps.database.collections, id)
  if (earlier === null) return null
  if (earlier.body_digest !== bodyDigest) throw usedWithOtherBody(earlier.import_id)
  return JSON.parse(earlier.reply ?? (await openReply(deps, earlier))) as CreatedImportView
}

/**
 * The reply as it is stored with the import. Where the import is encrypted, so is the reply: it has the same secrets.
 */
export function storedReply(
  { secrets }: ControlPlane,
  id: string,
  { bodyDigest }: CreationRequest,
  document: ImportDocument,
  view: CreatedImportView,
): Omit<IdempotencyDocument, 'expires_at'> {
  const reply = JSON.stringify(view)
  return {
    _id: id,
    body_digest: bodyDigest,
    import_id: document._id,
    ...(document.sealed === undefined ? { reply } : { sealed_reply: secrets.seal(reply, replyOwner(id)) }),
  }
}

async function openReply(
  { secrets }: ControlPlane,
  { _id, import_id: importId, sealed_reply: sealedReply = new Uint8Array() }: IdempotencyDocument,
): Promise<string> {
  try {
    return await secrets.open(sealedReply, replyOwner(_id))
  } catch (error) {
    if (!(error instanceof CannotUnseal)) throw error
    throw new RequestError(
      'internal_error',
      `import ${importId} was created with this Idempotency-Key, and the reply to that can't be decrypted: ${error.message}`,
      { status: 500, cause: error },
    )
  }
}

const replyOwner = (id: string): string => `idempotency key ${id}`
