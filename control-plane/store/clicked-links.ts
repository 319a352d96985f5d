import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { ClickedLinkDocument } from '../../shared/contract/schemas/delivery.ts'

/** Writes of `clicked_links`: first clicks, and earlier times of known ones. */
export async function writeClickedLinks(
  { clickedLinks }: Collections,
  { added, earlier }: { added: ClickedLinkDocument[]; earlier: readonly ClickedLinkDocument[] },
  session: ClientSession,
): Promise<void> {
  if (added.length > 0) await clickedLinks.insertMany(added, { session, ordered: false })
  if (earlier.length > 0)
    await clickedLinks.bulkWrite(
      earlier.map(({ _id, clicked_at }) => ({
        updateOne: { filter: { _id }, update: { $set: { clicked_at } } },
      })),
      { session, ordered: false },
    )
}
