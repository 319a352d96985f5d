import { readFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import { MongoError, type ClientSession } from 'mongodb'
import { Connection } from 'mongodb/lib/cmap/connection.js'

/**
 * Loaded into an engine before anything else (`node --import`), worker threads included. It kills the process with
 * SIGKILL at the point that ROLLCALL_TEST_CRASH_AT names: before a database command is sent, or after its reply has
 * come. No code of the process gets that reply.
 *
 *     insert subscribers after 3
 *         after the third insert into subscribers
 *     findAndModify imports "finalized":true before 1
 *         before the first update of imports that contains this text
 *     update import_chunks deactivated_to > commitTransaction before 2
 *         before the second commit of a transaction with such an update
 *
 * A command that a write conflict undoes doesn't count: its transaction is tried again, and sends it again.
 *
 * With SIGSTOP at the end, the process is suspended there instead, and a SIGCONT resumes it. Each thread counts for
 * itself. The log names the session, whose transaction would otherwise lock its rows for more than a minute.
 */

export const crashSetting = 'ROLLCALL_TEST_CRASH_AT'
/** Settings with which a process of ours crashes at a point. */
export const crashAt = (point: string) => ({
  NODE_OPTIONS: `--import=${import.meta.url}`,
  [crashSetting]: point,
})
/** The first text that a suspended process logs when it is resumed. */
export const wentOn = 'going on after SIGSTOP'

interface Command {
  name: string
  collection: string | undefined
  text: string | undefined
}

interface CrashPoint {
  /** The commands come one after the other, in one transaction. */
  path: Command[]
  moment: 'before' | 'after'
  /** The point is at this number of such commands, counted from 1. */
  count: number
  signal: 'SIGKILL' | 'SIGSTOP'
}

type RunCommand = Connection['command']

const setting = process.env[crashSetting]
if (setting !== undefined) {
  // oxlint-disable-next-line typescript/unbound-method -- called with the connection below
  Connection.prototype.command = crashingAt(parseCrashPoint(setting), Connection.prototype.command)
}

function parseCrashPoint(written: string): CrashPoint {
  const words = written.trim().split(/\s+/)
  const signal = words.at(-1) === 'SIGSTOP' ? 'SIGSTOP' : 'SIGKILL'
  if (signal === 'SIGSTOP') words.pop()
  const count = Number(words.pop())
  const moment = words.pop()
  const path = words
    .join(' ')
    .split(' > ')
    .map((command): Command => {
      const [name, collection, text] = command.split(' ')
      return { name: name ?? '', collection, text }
    })
  if ((moment !== 'before' && moment !== 'after') || !(count >= 1) || path.some(({ name }) => name === ''))
    throw new Error(
      `no crash point: ${written}; it is COMMAND [COLLECTION [TEXT]] [> ...] before|after N [SIGSTOP]`,
    )
  return { path, moment, count, signal }
}

function crashingAt({ path, moment, count, signal }: CrashPoint, run: RunCommand): RunCommand {
  /** For each session, how many commands of the path its transaction has sent. */
  const gone = new Map<string, number>()
  /** Of the commands at the end of the path, those that are sent and not undone, and those that have their reply. */
  let sent = 0
  let replied = 0

  /** Whether this command is the end of the path. */
  function arrives(command: Record<string, unknown>, session: ClientSession | undefined): boolean {
    const id = (session?.inTransaction() === true ? session.id?.id.toString('hex') : undefined) ?? ''
    const at = gone.get(id) ?? 0
    const isNext = matches(command, path[at]!)
    const isLast = at === path.length - 1
    if ('commitTransaction' in command || 'abortTransaction' in command) gone.delete(id)
    else if (isNext && !isLast && id !== '') gone.set(id, at + 1)
    return isNext && isLast
  }

  /** A process that was suspended here and resumed isn't suspended again. */
  let isPassed = false
  const pass = (session: ClientSession | undefined) => {
    isPassed = true
    halt(signal, session)
  }

  return async function (this: Connection, namespace, command, options, responseType) {
    if (isPassed || !arrives(command, options?.session))
      return run.call(this, namespace, command, options, responseType)
    if ((sent += 1) === count && moment === 'before') pass(options?.session)
    try {
      const reply = await run.call(this, namespace, command, options, responseType)
      if ((replied += 1) === count && moment === 'after') pass(options?.session)
      return reply
    } catch (error) {
      // A write conflict has undone the transaction, and its commands are sent again.
      if (isTransient(error)) sent -= 1
      else replied += 1
      throw error
    }
  }
}

const isTransient = (error: unknown): boolean =>
  error instanceof MongoError && error.hasErrorLabel('TransientTransactionError')

function matches(command: Record<string, unknown>, { name, collection, text }: Command): boolean {
  if (!(name in command)) return false
  if (collection !== undefined && command[name] !== collection) return false
  return text === undefined || JSON.stringify(command).includes(text)
}

function halt(signal: 'SIGKILL' | 'SIGSTOP', session: ClientSession | undefined): void {
  writeSync(2, `${signal} at ${setting} in session ${session?.id?.id.toString('hex') ?? 'none'}\n`)
  process.kill(process.pid, signal)
  // The signal may arrive late on a busy machine, so this thread does nothing more before it has arrived.
  const nothing = new Int32Array(new SharedArrayBuffer(4))
  if (signal === 'SIGKILL') Atomics.wait(nothing, 0, 0)
  while (isPending(signal)) Atomics.wait(nothing, 0, 0, 1)
  writeSync(2, `${wentOn}\n`)
}

/**
 * Whether a signal to this process waits for one of its threads, as Linux shows it. A thread that reads that it no longer
 * does is itself suspended at the end of that read.
 */
function isPending(signal: 'SIGKILL' | 'SIGSTOP'): boolean {
  if (process.platform !== 'linux') return false
  const pending = /^ShdPnd:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return ((BigInt(`0x${pending}`) >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n
}
