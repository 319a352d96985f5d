import { Counter, Gauge, type Registry } from 'prom-client'

export interface FtpMetrics {
  sessions(change: 1 | -1): void
  login(result: 'ok' | 'wrong' | 'throttled' | 'forbidden'): void
  bytes(direction: 'in' | 'out', bytes: number): void
}

export function createFtpMetrics(registry: Registry): FtpMetrics {
  const registers = [registry]
  const sessions = new Gauge({
    name: 'rollcall_ftp_sessions',
    help: 'Control connections that are open',
    registers,
  })
  const logins = new Counter({
    name: 'rollcall_ftp_logins_total',
    help: 'Logins by result',
    labelNames: ['result'],
    registers,
  })
  for (const result of ['ok', 'wrong', 'throttled', 'forbidden']) logins.inc({ result }, 0)
  const bytes = new Counter({
    name: 'rollcall_ftp_bytes_total',
    help: 'Bytes of files by direction',
    labelNames: ['direction'],
    registers,
  })
  for (const direction of ['in', 'out']) bytes.inc({ direction }, 0)
  return {
    sessions: (change) => sessions.inc(change),
    login: (result) => logins.inc({ result }),
    bytes: (direction, count) => bytes.inc({ direction }, count),
  }
}
