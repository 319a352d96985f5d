import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { knownCounter } from '../shared/runtime/metrics/known-counter.ts'

/** The reasons why sessions end. */
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

/** `in` and `out` are files, `list` is everything else that data connections carry. */
const transferKinds = ['in', 'out', 'list'] as const
export type TransferKind = (typeof transferKinds)[number]

const transferResults = ['done', 'broken_off', 'refused'] as const
export type TransferResult = (typeof transferResults)[number]

export interface FtpMetrics {
  sessions(change: 1 | -1): void
  login(result: 'ok' | 'wrong' | 'throttled' | 'forbidden'): void
  bytes(direction: 'in' | 'out', bytes: number): void
  sessionEnded(reason: SessionEnd): void
  /** A connection was refused because there were too many sessions. */
  connectionRefused(): void
  transferBegun(kind: TransferKind): void
  transferEnded(kind: TransferKind, result: TransferResult, seconds: number): void
}

/** Throws when the registry has these metrics already. */
export function createFtpMetrics(registry: Registry): FtpMetrics {
  const registers = [registry]
  const sessions = new Gauge({
    name: 'rollcall_ftp_sessions',
    help: 'Open control connections',
    registers,
  })
  const logins = knownCounter(registry, {
    name: 'rollcall_ftp_logins_total',
    help: 'Logins, by result',
    labels: { result: ['ok', 'wrong', 'throttled', 'forbidden'] },
  })
  const bytes = knownCounter(registry, {
    name: 'rollcall_ftp_bytes_total',
    help: 'Bytes of files, by direction',
    labels: { direction: ['in', 'out'] },
  })
  const ends = knownCounter(registry, {
    name: 'rollcall_ftp_disconnections_total',
    help: 'Ended sessions, by reason',
    labels: { reason: sessionEnds },
  })
  const refusals = new Counter({
    name: 'rollcall_ftp_connections_refused_total',
    help: 'Connections refused because of too many sessions, in the process or from their address',
    registers,
  })
  const running = new Gauge({
    name: 'rollcall_ftp_transfers',
    help: 'Transfers in progress, listings included',
    labelNames: ['kind'],
    registers,
  })
  for (const kind of transferKinds) running.set({ kind }, 0)
  const transfers = knownCounter(registry, {
    name: 'rollcall_ftp_transfers_total',
    help: 'Ended transfers by kind and result; refused ones ended before their data',
    labels: { kind: transferKinds, result: transferResults },
  })
  const durations = new Histogram({
    name: 'rollcall_ftp_transfer_duration_seconds',
    help: 'Duration of transfers',
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
