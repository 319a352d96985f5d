import { CommanderError } from 'commander'
import { loadClientSettings } from '../../shared/runtime/config.ts'
import { ApiClient } from './api-client.ts'
import { CommandFailure, explain } from './failures.ts'
import { buildProgram } from './program.ts'
import type { Session } from './session.ts'
import { printable, styledFor, type Terminal } from './terminal.ts'

/** The command line `rollcall`: from its arguments to its exit code. */

let session: Session | null = null

// What can't be said is lost; the work goes on, and the exit code still tells how it went.
process.stderr.on('error', () => undefined)
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Who reads has enough, as `head` does.
  if (error.code === 'EPIPE') process.exit(session?.exitCodeUnread ?? 0)
  process.stderr.write(`rollcall: can't write to standard output: ${error.message}\n`)
  process.exit(1)
})

let exitCode = 0
const settings = settingsOrNull()
const terminal: Terminal = {
  input: process.stdin,
  out: process.stdout,
  err: process.stderr,
  hasColours: settings.value?.NO_COLOR === undefined,
}

const program = buildProgram({
  terminal,
  openSession: () => {
    if (settings.value === null) throw settings.error as Error
    session = {
      client: new ApiClient(settings.value.ROLLCALL_URL, settings.value.ROLLCALL_API_KEY),
      settings: settings.value,
      terminal,
      exitCodeUnread: 0,
      print: (value) => process.stdout.write(`${JSON.stringify(value)}\n`),
      say: (text) => process.stdout.write(`${text}\n`),
    }
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
  await (session as Session | null)?.client.destroy()
}
process.exitCode = exitCode
// A pipe that standard input still waits for must not hold the program up.
process.stdin.unref?.()

function settingsOrNull() {
  try {
    return { value: loadClientSettings(), error: null }
  } catch (error) {
    return { value: null, error }
  }
}

/** Says what went wrong. Commander has said it already, and calls help an error too. */
function failureCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  const style = styledFor(terminal, process.stderr)
  const { lines, hint } = explain(error, { hasKey: settings.value?.ROLLCALL_API_KEY !== undefined })
  for (const line of lines) process.stderr.write(`${style('red', 'rollcall:')} ${printable(line)}\n`)
  if (hint !== null) process.stderr.write(`${style('dim', hint)}\n`)
  return error instanceof CommandFailure ? error.exitCode : 1
}
