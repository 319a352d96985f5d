import { maxOpenFiles } from '../../shared/runtime/open-files.ts'

export interface SessionLimits {
  inProcess: number
  perAddress: number
  perAccount: number
}

/** More refused connections of one address at a time are closed without a reply. */
const maxRefusedPerAddress = 10

/** A session uses its control connection, a port or data connection, and up to two files. */
const descriptorsPerSession = 4
/** For the database, the staging, metrics and refused connections. */
const otherDescriptors = 200

/** Counts sessions in the process, by address and by account, and refused connections by address. */
export class ConnectionLimits {
  readonly #limits: SessionLimits
  #sessions = 0
  readonly #byAddress = new Map<string, number>()
  readonly #byAccount = new Map<number, number>()
  readonly #refusedByAddress = new Map<string, number>()

  constructor(limits: SessionLimits) {
    this.#limits = limits
  }

  /** Counts a session and returns null, or returns the reason why it may not begin. */
  enter(address: string): string | null {
    if (this.#sessions >= this.#limits.inProcess) return 'the server has too many sessions; try again later'
    if (!increase(this.#byAddress, address, this.#limits.perAddress))
      return 'too many sessions from this address; close one and try again'
    this.#sessions += 1
    return null
  }

  leave(address: string): void {
    this.#sessions -= 1
    decrease(this.#byAddress, address)
  }

  /** Counts a refused connection; false when it is one too many to be told the reason. */
  enterRefused(address: string): boolean {
    return increase(this.#refusedByAddress, address, maxRefusedPerAddress)
  }

  leaveRefused(address: string): void {
    decrease(this.#refusedByAddress, address)
  }

  /** Counts a session of an account; false when the account has too many. */
  enterAccount(account: number): boolean {
    return increase(this.#byAccount, account, this.#limits.perAccount)
  }

  leaveAccount(account: number): void {
    decrease(this.#byAccount, account)
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

/** The number of sessions for which the process has file descriptors. */
export const maxSessionsByDescriptors = (): number =>
  Math.max(1, Math.floor((maxOpenFiles() - otherDescriptors) / descriptorsPerSession))
