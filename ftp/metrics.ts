import { Counter, Gauge, type Registry } from 'prom-client'
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

export type FtpMetrics = ReturnType<typeof createFtpMetrics>

/** Throws when the registry has these metrics already. */
export function createFtpMetrics(registry: Registry) {
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
  return {
    sessionEnded: (reason: SessionEnd) => ends.inc({ reason }),
    /** A connection was refused because there were too many sessions. */
    connectionRefused: () => refusals.inc(),
    sessions: (change: 1 | -1) => sessions.inc(change),
    login: (result: 'ok' | 'wrong' | 'throttled' | 'forbidden') => logins.inc({ result }),
  }
}
