import { setTimeout as sleep } from 'node:timers/promises'
import { callersByKey } from '../shared/store/api-keys.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Collections } from '../shared/contract/schemas/collections.ts'
import type { Part } from '../shared/runtime/service.ts'
import { mayUpload } from './login.ts'
import type { FtpSession } from './session.ts'

interface KeyWatchOptions {
  sessions: ReadonlySet<FtpSession>
  collections: Collections
  pollMs: number
  log: Logger
}

/**
 * Polls the API keys of all sessions in one query. It ends the sessions whose key was revoked or deactivated, lost the
 * permission to import, or belonged to a deleted user. While the database doesn't answer, sessions continue.
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

  async #run({ sessions, collections, pollMs, log }: KeyWatchOptions): Promise<void> {
    const { signal } = this.#stopping
    let isAnswered = true
    while (!signal.aborted) {
      await sleep(pollMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      try {
        await checkKeys(sessions, collections, signal)
        isAnswered = true
      } catch (error) {
        if (isAnswered && !signal.aborted)
          log.warn({ err: error }, 'the API keys of FTP sessions could not be checked, the sessions continue')
        isAnswered = false
      }
    }
  }
}

async function checkKeys(
  sessions: ReadonlySet<FtpSession>,
  collections: Collections,
  signal: AbortSignal,
): Promise<void> {
  const loggedIn = [...sessions].flatMap((session) =>
    session.account === null ? [] : [{ session, account: session.account }],
  )
  if (loggedIn.length === 0) return
  const keyIds = [...new Set(loggedIn.map(({ account }) => account.keyId))]
  const callers = await callersByKey(collections, keyIds, signal)
  for (const { session, account } of loggedIn) {
    const caller = callers.get(account.keyId)
    if (caller === undefined || caller.organizationId !== account.organizationId || !mayUpload(caller))
      session.end('key_revoked', 'the API key of this session may no longer upload')
  }
}
