import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Costs the same write as an attempt to sign in of an existing user, so that unknown emails aren't recognizable by time. */
export async function countUnknownSignIn({ counters }: Collections): Promise<void> {
  await counters.updateOne({ _id: 'sign_in_for_nobody' }, { $inc: { next: 1 } }, { upsert: true })
}
