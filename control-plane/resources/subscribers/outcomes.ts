import { RequestError } from '../../../shared/contract/errors.ts'
import type { SubscriberWrite } from '../../store/subscribers.ts'

/** What became of a write, in the API's words. */

/** Throws what the outcome is to a client, unless it is `done`; `shown` names the subscriber. */
export function refuseWrite(outcome: Exclude<SubscriberWrite, 'list_changed'>, shown: string): void {
  switch (outcome) {
    case 'done':
      return
    case 'missing':
      throw new RequestError('not_found', `there is no subscriber ${shown}`)
    case 'several':
      throw new RequestError(
        'multiple_records_found',
        `several subscribers have the email ${shown}: name one of them by its id`,
      )
    case 'over_limit':
      throw new RequestError(
        'validation_failed',
        "status can't be active: the organization's subscriber limit is reached",
      )
    case 'busy':
      throw new RequestError(
        'validation_failed',
        "status can't be active just now: imports hold what is left under the organization's subscriber limit, try again when they have ended",
      )
  }
}

export const takenIdentity = 'the list already has a subscriber with this identity'

export const takenProblem = (): RequestError => new RequestError('validation_failed', takenIdentity)

const maxChecks = 20

/**
 * Does `write` again, from the start, when the list changed between the check and the write: so writes of subscribers
 * look the list up themselves, and read the body anew against it. Throws 503 when it changes again and again.
 */
export async function retryOnListChange<T>(write: () => Promise<{ done: T } | 'again'>): Promise<T> {
  for (let tries = 0; tries < maxChecks; tries += 1) {
    const result = await write()
    if (result !== 'again') return result.done
  }
  throw new RequestError(
    'internal_error',
    'the mailing list is being changed all the time: try again in a moment',
    { status: 503, headers: { 'Retry-After': '1' } },
  )
}
