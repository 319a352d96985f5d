import { setTimeout as sleep } from 'node:timers/promises'
import { callersByKey } from '../shared/store/api-keys.ts'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Collections } from '../shared/contract/schemas/collections.ts'
import type { Part } from '../shared/runtime/service.ts'
import { mayUpload } from './login.ts'
import type { FtpSession } from './session.ts'

/**
 * Ends the sessions whose key may upload no longer: revoked, inactive, without the permission, or of a user who is
 * gone. All keys are looked at together. A database that doesn't answer ends nobody.
 */
export class KeyWatch implements Part {
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>

  constructor(options: {
    sessions: ReadonlySet<FtpSession>
    collections: Collections
    pollMs: number
    log: Logger
  }) {
    this.#ended = this.#run(options)
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#ended
  }

  async #run({
    sessions,
    collections,
    pollMs,
    log,
  }: ConstructorParameters<typeof KeyWatch>[0]): Promise<void> {
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
          log.warn({ err: error }, 'the keys of FTP sessions could not be looked at, the sessions go on')
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
  // Who logs in meanwhile is looked at the next time.
  const looked = [...sessions].filter(({ account }) => account !== null)
  if (looked.length === 0) return
  const keyIds = [...new Set(looked.map(({ account }) => account!.keyId))]
  const callers = await callersByKey(collections, keyIds, signal)
  for (const session of looked) {
    const caller = callers.get(session.account!.keyId)
    if (
      caller === undefined ||
      caller.organizationId !== session.account!.organizationId ||
      !mayUpload(caller)
    )
      session.end('key_revoked', 'the API key of this session may upload no longer')
  }
}
