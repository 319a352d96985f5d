import { report } from 'node:process'

/**
 * The maximum number of files and connections that this process may have open (`ulimit -n`); Infinity without a limit.
 */
export function maxOpenFiles(): number {
  // Otherwise the report resolves the host names of all connected peers.
  Object.assign(report, { excludeNetwork: true })
  const { userLimits } = report.getReport() as {
    userLimits?: { open_files?: { soft: number | 'unlimited' } }
  }
  const openFiles = userLimits?.open_files?.soft
  return typeof openFiles === 'number' ? openFiles : Infinity
}
