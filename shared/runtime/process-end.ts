import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { errorCode } from '../contract/errors.ts'

/**
 * Tells whether another process of this machine has ended. Linux alone says so, in /proc. Elsewhere nothing is known,
 * and a dead process is noticed by its lease.
 */

/** A process, so that processes of the same machine can tell whether it has ended. */
export interface ProcessOrigin {
  /** Host, boot and namespaces. Where one differs, a process id or a start may mean another process. */
  id_space: string
  /** Clock ticks from the boot to the start of the process. A later process with the same id has others. */
  start_ticks: number
}

/** This process; null where that can't be told. */
export const ownOrigin: ProcessOrigin | null = readOwnOrigin()

function readOwnOrigin(): ProcessOrigin | null {
  try {
    // A /proc of another namespace, as that of a container's host, shows this process under another id.
    if (readlinkSync('/proc/self') !== String(process.pid)) return null
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const namespaces = ['pid', 'time'].map((name) => readlinkSync(`/proc/self/ns/${name}`))
    const { startTicks } = readStatus(process.pid)
    return { id_space: [hostname(), boot, ...namespaces].join(' '), start_ticks: startTicks }
  } catch {
    return null
  }
}

/** A suspended process hasn't ended; one that only its parent has yet to wait for (a zombie) has. */
export function hasEnded(processId: number, origin: ProcessOrigin): boolean {
  if (origin.id_space !== ownOrigin?.id_space) return false
  try {
    process.kill(processId, 0)
  } catch (error) {
    // Any other error comes from a process of another user.
    return errorCode(error) === 'ESRCH'
  }
  try {
    const { state, startTicks } = readStatus(processId)
    return startTicks !== origin.start_ticks || state === 'Z' || state === 'X'
  } catch {
    return false
  }
}

/** Throws where /proc doesn't show the process. */
function readStatus(processId: number): { state: string; startTicks: number } {
  const text = readFileSync(`/proc/${processId}/stat`, 'utf8')
  // The second field is the program's name, in brackets, which may have spaces and brackets itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0]!, startTicks: Number(fields[19]) }
}
