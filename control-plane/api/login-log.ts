import { clock } from '../../shared/runtime/clock.ts'
import { actorFields, findRefusedKey, type Caller } from '../../shared/store/api-keys.ts'
import { hourMs } from '../../shared/values/durations.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { RequestState } from './request-locals.ts'

/** Logins over HTTP, where every request has its credential. */

const maxKnown = 10_000

/** Logs the first use of a key from an address in this process, and then at most one an hour. */
export class LoginLog {
  /** When a login was logged, by `clock.monotonicMs`. */
  readonly #loggedAt = new Map<string, number>()

  record({ log, address }: RequestState, caller: Caller): void {
    const login = `${caller.keyId} ${address}`
    const now = clock.monotonicMs()
    if (now - (this.#loggedAt.get(login) ?? -Infinity) < hourMs) return
    if (this.#loggedAt.size >= maxKnown) this.#loggedAt.clear()
    this.#loggedAt.set(login, now)
    log.info({ event: 'login', protocol: 'http', ...actorFields(caller, address) }, 'login')
  }
}

/** Never logs what was sent; of a key that is known, such as an inactive one or one with a wrong user, its id. */
export async function logRefusedLogin(
  { database, keyHashSecret }: Pick<ControlPlane, 'database' | 'keyHashSecret'>,
  { log, address }: RequestState,
  keys: string[],
  reason: string,
): Promise<void> {
  const found = await Promise.all(keys.map((key) => findRefusedKey(database.collections, keyHashSecret, key)))
  const known = found.find((key) => key !== null)
  const who = known === undefined ? { address } : actorFields(known, address)
  log.info({ event: 'login_refused', protocol: 'http', ...who, reason }, 'a login was refused')
}
