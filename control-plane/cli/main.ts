import { CommanderError } from 'commander'
import { loadClientSettings, type ClientSettings } from '../../shared/runtime/config.ts'
import { ApiClient } from './api-client.ts'
import { exitCodes } from './exit-codes.ts'
import { CommandFailure, explain } from './failures.ts'
import { buildProgram } from './program.ts'
import type { Session } from './session.ts'
import { printable, styledFor, writeSentence, type Terminal } from './terminal.ts'

/** The command line `rollcall`: from its arguments to its exit code. */

/** `session` is set by the first command that talks to the service. */
const opened: { session: Session | null } = { session: null }

// Text that can't be written to standard error is lost. The work continues, and the exit code still tells the result.
process.stderr.on('error', () => undefined)
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // The reader has closed the pipe, as `head` does.
  if (error.code === 'EPIPE') process.exit(opened.session?.exitCodeUnread ?? exitCodes.done)
  process.stderr.write(`rollcall: can't write to standard output: ${error.message}\n`)
  process.exit(exitCodes.failed)
})

let exitCode: number = exitCodes.done
/** Null when they are wrong. Commands that need them load them again, and fail with the reason. */
const settings = settingsOrNull()
const terminal: Terminal = {
  input: process.stdin,
  out: process.stdout,
  err: process.stderr,
  hasColours: settings?.NO_COLOR === undefined,
}

const program = buildProgram({
  terminal,
  openSession: () => {
    const known = settings ?? loadClientSettings()
    const session: Session = {
      client: new ApiClient(known.ROLLCALL_URL, known.ROLLCALL_API_KEY),
      settings: known,
      terminal,
      exitCodeUnread: exitCodes.done,
      print: (value) => process.stdout.write(`${JSON.stringify(value)}\n`),
      say: (text) => writeSentence(process.stdout, text),
    }
    opened.session = session
    return session
  },
  onEnd: (code) => (exitCode = code),
})
try {
  if (process.argv.length <= 2) program.help({ error: true })
  await program.parseAsync(process.argv)
} catch (error) {
  exitCode = failureCode(error)
} finally {
  await opened.session?.client.destroy()
}
process.exitCode = exitCode
// An open pipe at standard input must not keep the program running.
process.stdin.unref?.()

function settingsOrNull(): ClientSettings | null {
  try {
    return loadClientSettings()
  } catch {
    return null
  }
}

/** Prints what went wrong, and returns the exit code. Commander prints its own errors, and treats help as one. */
function failureCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
  const style = styledFor(terminal, process.stderr)
  const { lines, hint } = explain(error, { hasKey: settings?.ROLLCALL_API_KEY !== undefined })
  for (const line of lines) writeSentence(process.stderr, `${style('red', 'rollcall:')} ${printable(line)}`)
  if (hint !== null) writeSentence(process.stderr, style('dim', hint))
  return error instanceof CommandFailure ? error.exitCode : exitCodes.failed
}
