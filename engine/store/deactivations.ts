import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { deactivationId, nextDeactivationId } from '../../shared/contract/schemas/import.ts'

/** Appends a piece of the log of deactivated subscribers, an address a line, packed. */
export async function appendDeactivationLog(
  { outcomes }: Collections,
  session: ClientSession,
  chunkId: string,
  lines: Buffer,
): Promise<void> {
  const last = await outcomes.findOne(
    { _id: { $gte: deactivationId(chunkId, 0), $lt: `${chunkId};` } },
    { session, projection: { _id: 1 }, sort: { _id: -1 } },
  )
  await outcomes.insertOne(
    { _id: nextDeactivationId(chunkId, last?._id), logs: { deactivated: lines } },
    { session },
  )
}
