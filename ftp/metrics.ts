import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { knownCounter } from '../shared/runtime/metrics/known-counter.ts'

/** Who ended a session, and why. */
const sessionEnds = [
  'quit',
  'connection_lost',
  'login_timeout',
  'idle',
  'wrong_logins',
  'account_limit',
  'key_revoked',
  'flood',
  'stop',
] as const
export type SessionEnd = (typeof sessionEnds)[number]

/** `in` and `out` are files, `list` is all else that goes over data connections. */
const transferKinds = ['in', 'out', 'list'] as const
export type TransferKind = (typeof transferKinds)[number]

const transferResults = ['done', 'broken_off', 'refused'] as const
export type TransferResult = (typeof transferResults)[number]

export interface FtpMetrics {
  sessions(change: 1 | -1): void
  login(result: 'ok' | 'wrong' | 'throttled' | 'forbidden'): void
  bytes(direction: 'in' | 'out', bytes: number): void
  sessionEnded(reason: SessionEnd): void
  /** More connections than there may be sessions. */
  connectionRefused(): void
  transferBegun(kind: TransferKind): void
  transferEnded(kind: TransferKind, result: TransferResult, seconds: number): void
}

/** Throws where the registry has these metrics already. */
export function createFtpMetrics(registry: Registry): FtpMetrics {
  const registers = [registry]
  const sessions = new Gauge({
    name: 'rollcall_ftp_sessions',
    help: 'Control connections that are open',
    registers,
  })
  const logins = knownCounter(registry, {
    name: 'rollcall_ftp_logins_total',
    help: 'Logins by result',
    labels: { result: ['ok', 'wrong', 'throttled', 'forbidden'] },
  })
  const bytes = knownCounter(registry, {
    name: 'rollcall_ftp_bytes_total',
    help: 'Bytes of files by direction',
    labels: { direction: ['in', 'out'] },
  })
  const ends = knownCounter(registry, {
    name: 'rollcall_ftp_disconnections_total',
    help: 'Sessions that ended, by reason',
    labels: { reason: sessionEnds },
  })
  const refusals = new Counter({
    name: 'rollcall_ftp_connections_refused_total',
    help: 'Connections that were refused because there were too many sessions, in all or from their address',
    registers,
  })
  const running = new Gauge({
    name: 'rollcall_ftp_transfers',
    help: 'Transfers that run, listings included',
    labelNames: ['kind'],
    registers,
  })
  for (const kind of transferKinds) running.set({ kind }, 0)
  const transfers = knownCounter(registry, {
    name: 'rollcall_ftp_transfers_total',
    help: 'Transfers that ended, by result: refused ones had not begun to send',
    labels: { kind: transferKinds, result: transferResults },
  })
  const durations = new Histogram({
    name: 'rollcall_ftp_transfer_duration_seconds',
    help: 'Time that transfers took',
    labelNames: ['kind'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    registers,
  })
  for (const kind of transferKinds) durations.zero({ kind })
  return {
    sessionEnded: (reason) => ends.inc({ reason }),
    connectionRefused: () => refusals.inc(),
    transferBegun: (kind) => running.inc({ kind }),
    transferEnded(kind, result, seconds) {
      running.dec({ kind })
      transfers.inc({ kind, result })
      durations.observe({ kind }, seconds)
    },
    sessions: (change) => sessions.inc(change),
    login: (result) => logins.inc({ result }),
    bytes: (direction, count) => bytes.inc({ direction }, count),
  }
}
