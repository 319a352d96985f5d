import { Gauge, Histogram, type Registry } from 'prom-client'
import { knownCounter } from '../../runtime/metrics/known-counter.ts'

/** The ways to an upload directory. Metrics of all of them are called `rollcall_ftp_`, as the first one was FTP. */
export type TransferProtocol = 'ftp' | 'ftps' | 'http'

/** `in` and `out` are files, `list` are the listings of FTP's data connections. */
const transferKinds = ['in', 'out', 'list'] as const
export type TransferKind = (typeof transferKinds)[number]

const transferResults = ['done', 'broken_off', 'refused'] as const
export type TransferResult = (typeof transferResults)[number]

export type TransferMetrics = ReturnType<typeof createTransferMetrics>

/** The series of the protocols that the process serves begin at 0. */
export function createTransferMetrics(registry: Registry, protocols: readonly TransferProtocol[]) {
  const registers = [registry]
  const bytes = knownCounter(registry, {
    name: 'rollcall_ftp_bytes_total',
    help: 'Bytes of files, by protocol and direction',
    labels: { protocol: protocols, direction: ['in', 'out'] },
  })
  const running = new Gauge({
    name: 'rollcall_ftp_transfers',
    help: 'Transfers in progress, listings of FTP included',
    labelNames: ['protocol', 'kind'],
    registers,
  })
  const transfers = knownCounter(registry, {
    name: 'rollcall_ftp_transfers_total',
    help: 'Ended transfers by protocol, kind and result; refused ones ended before their data',
    labels: { protocol: protocols, kind: transferKinds, result: transferResults },
  })
  const durations = new Histogram({
    name: 'rollcall_ftp_transfer_duration_seconds',
    help: 'Duration of transfers',
    labelNames: ['protocol', 'kind'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    registers,
  })
  for (const protocol of protocols)
    for (const kind of transferKinds) {
      running.set({ protocol, kind }, 0)
      durations.zero({ protocol, kind })
    }
  return {
    bytes: (protocol: TransferProtocol, direction: 'in' | 'out', count: number) =>
      bytes.inc({ protocol, direction }, count),
    begun: (protocol: TransferProtocol, kind: TransferKind) => running.inc({ protocol, kind }),
    ended(protocol: TransferProtocol, kind: TransferKind, result: TransferResult, seconds: number) {
      running.dec({ protocol, kind })
      transfers.inc({ protocol, kind, result })
      durations.observe({ protocol, kind }, seconds)
    },
  }
}
