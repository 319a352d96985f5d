import { setTimeout as sleep } from 'node:timers/promises'
import type { Collections } from '../contract/schemas/collections.ts'
import type { Logger } from '../runtime/logger.ts'
import type { Part } from '../runtime/service.ts'
import { callersByKey, mayUpload, type Caller, type KeyHolder } from '../store/api-keys.ts'

/** A session or a transfer that ends with its API key. */
export interface KeyWatched {
  /** Null before the login. */
  account: KeyHolder | null
  onKeyRevoked(): void
}

/** Interval between two checks of the API keys. */
export const keyPollMs = 1_500

interface KeyWatchOptions {
  watched: ReadonlySet<KeyWatched>
  collections: Collections
  pollMs?: number
  log: Logger
}

/**
 * Polls the API keys of all sessions and transfers in one query. It ends those whose key was revoked or deactivated, lost
 * the permission to import, got another role or folder, or belonged to a deleted user. While the database doesn't answer,
 * they continue.
 */
export class KeyWatch implements Part {
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>

  constructor(options: KeyWatchOptions) {
    this.#ended = this.#run(options)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run({ watched, collections, pollMs = keyPollMs, log }: KeyWatchOptions): Promise<void> {
    const { signal } = this.#stopping
    let isAnswered = true
    while (!signal.aborted) {
      await sleep(pollMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      try {
        await checkKeys(watched, collections, signal)
        isAnswered = true
      } catch (error) {
        if (isAnswered && !signal.aborted)
          log.warn({ err: error }, 'the API keys of transfers could not be checked, the transfers continue')
        isAnswered = false
      }
    }
  }
}

async function checkKeys(
  watched: ReadonlySet<KeyWatched>,
  collections: Collections,
  signal: AbortSignal,
): Promise<void> {
  const loggedIn = [...watched].flatMap((each) =>
    each.account === null ? [] : [{ each, account: each.account }],
  )
  if (loggedIn.length === 0) return
  const keyIds = [...new Set(loggedIn.map(({ account }) => account.keyId))]
  const callers = await callersByKey(collections, keyIds, signal)
  for (const { each, account } of loggedIn) {
    const caller = callers.get(account.keyId)
    if (caller === undefined || !mayUpload(caller) || !isSame(caller, account)) each.onKeyRevoked()
  }
}

const isSame = (caller: Caller, account: KeyHolder): boolean =>
  (['organizationId', 'role', 'uploadsFolder'] as const).every((key) => caller[key] === account[key])
