import { maxOpenFiles } from '../../shared/runtime/open-files.ts'

export interface SessionLimits {
  inProcess: number
  perAddress: number
  perAccount: number
}

/** So many refused connections from one address may hear why at a time; more are just closed. */
const maxRefusedPerAddress = 10

/** A session has its control connection, a port or data connection, and up to two files. */
const descriptorsPerSession = 4
/** For the database, the staging, metrics, and connections that are refused. */
const otherDescriptors = 200

/**
 * How many sessions there may be: in the process, from one address, of one account. Counts only; who is refused is
 * told so by the server, and has a short time and few slots for it.
 */
export class ConnectionLimits {
  readonly #limits: SessionLimits
  #sessions = 0
  readonly #ofAddress = new Map<string, number>()
  readonly #ofAccount = new Map<number, number>()
  readonly #refusedOfAddress = new Map<string, number>()

  constructor(limits: SessionLimits) {
    this.#limits = limits
  }

  /** Null when the session may begin, and is counted; else why it may not. */
  refusalOf(address: string): string | null {
    if (this.#sessions >= this.#limits.inProcess) return 'the server has too many sessions, try again later'
    if (!increase(this.#ofAddress, address, this.#limits.perAddress))
      return 'there are too many sessions from this address, end some of them'
    this.#sessions += 1
    return null
  }

  leave(address: string): void {
    this.#sessions -= 1
    decrease(this.#ofAddress, address)
  }

  /** Whether one more refused connection may hear why; then it is counted. */
  enterRefused(address: string): boolean {
    return increase(this.#refusedOfAddress, address, maxRefusedPerAddress)
  }

  leaveRefused(address: string): void {
    decrease(this.#refusedOfAddress, address)
  }

  /** Whether one more session of the account may log in; then it is counted. */
  enterAccount(account: number): boolean {
    return increase(this.#ofAccount, account, this.#limits.perAccount)
  }

  leaveAccount(account: number): void {
    decrease(this.#ofAccount, account)
  }
}

function increase<K>(counts: Map<K, number>, key: K, limit: number): boolean {
  const count = counts.get(key) ?? 0
  if (count >= limit) return false
  counts.set(key, count + 1)
  return true
}

function decrease<K>(counts: Map<K, number>, key: K): void {
  const count = (counts.get(key) ?? 0) - 1
  if (count > 0) counts.set(key, count)
  else counts.delete(key)
}

/** How many sessions the process has file descriptors for. */
export const sessionsThatFit = (): number =>
  Math.max(1, Math.floor((maxOpenFiles() - otherDescriptors) / descriptorsPerSession))
