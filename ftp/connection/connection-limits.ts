import { BoundedCounts, halfOf } from '../../shared/runtime/bounded-counts.ts'
import { maxOpenFiles } from '../../shared/runtime/open-files.ts'

export interface SessionLimits {
  inProcess: number
  perAddress: number
  perAccount: number
}

/** Refused connections of one address that are told why, at a time. Further ones are closed without a reply. */
const maxRefusedPerAddress = 10

/** A session uses its control connection, a port or data connection, and up to two files. */
const descriptorsPerSession = 4
/** For the database, the staging, metrics and refused connections. */
const otherDescriptors = 200

/** Counts sessions in the process, by address, account and partner's key, and refused connections by address. */
export class ConnectionLimits {
  readonly accounts: BoundedCounts<number>
  /** Sessions of each key of the role `uploads`: at most half of its account's. */
  readonly partners: BoundedCounts<number>
  /** Connections that are told the reason of their refusal, by address. */
  readonly refused = new BoundedCounts<string>(maxRefusedPerAddress)
  readonly #addresses: BoundedCounts<string>
  readonly #maxSessions: number
  #sessions = 0

  constructor({ inProcess, perAddress, perAccount }: SessionLimits) {
    this.#maxSessions = inProcess
    this.#addresses = new BoundedCounts(perAddress)
    this.accounts = new BoundedCounts(perAccount)
    this.partners = new BoundedCounts(halfOf(perAccount))
  }

  /** Counts a session and returns null, or returns the reason why it may not begin. */
  enter(address: string): string | null {
    if (this.#sessions >= this.#maxSessions) return 'the server has too many sessions; try again later'
    if (!this.#addresses.add(address)) return 'too many sessions from this address; close one and try again'
    this.#sessions += 1
    return null
  }

  release(address: string): void {
    this.#sessions -= 1
    this.#addresses.remove(address)
  }
}

/** The number of sessions for which the process has file descriptors. */
export const maxSessionsByDescriptors = (): number =>
  Math.max(1, Math.floor((maxOpenFiles() - otherDescriptors) / descriptorsPerSession))
