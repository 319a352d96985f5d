import { report } from 'node:process'

/** How many files and connections this process may have open at a time (`ulimit -n`); Infinity without a limit. */
export function maxOpenFiles(): number {
  // Else it asks the name service for the peers of open connections.
  Object.assign(report, { excludeNetwork: true })
  const { userLimits } = report.getReport() as {
    userLimits?: { open_files?: { soft: number | 'unlimited' } }
  }
  const openFiles = userLimits?.open_files?.soft
  return typeof openFiles === 'number' ? openFiles : Infinity
}
