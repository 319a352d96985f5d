import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { CommanderError } from 'commander'
import type { Test } from 'tap'
import { ApiClient } from '../../control-plane/cli/api-client.ts'
import { CommandFailure, explain } from '../../control-plane/cli/failures.ts'
import { buildProgram } from '../../control-plane/cli/program.ts'
import type { Terminal } from '../../control-plane/cli/terminal.ts'
import { loadClientSettings } from '../../shared/runtime/config.ts'
import { bootstrapKey, type Json, type startService } from './service.ts'

/** Runs commands against a service: as processes, in this process, and in a terminal. */

export const program = fileURLToPath(new URL('../../control-plane/cli/rollcall.js', import.meta.url))

export interface Ended {
  code: number | null
  out: string
  err: string
  /** The JSON values of its lines. */
  json: Json[]
}

interface RunOptions {
  input?: string | Uint8Array
  settings?: Record<string, string>
}

interface CommandLine {
  /** Where commands run, and where files are made. */
  folder: string
  environment: (more?: Record<string, string>) => Record<string, string>
  /** Starts the command as a process. */
  start: (args: string[], more?: Record<string, string>) => ChildProcess
  run: (args: string[], options?: RunOptions) => Promise<Ended>
  /** Runs the command in this process, which is ten times as fast. */
  call: (args: string[], more?: Record<string, string>) => Promise<Ended>
  file: (name: string, content: string | Uint8Array) => Promise<string>
  /** `steps`: a text to wait for, or none, and what is typed then. */
  onTerminal: (
    args: string[],
    steps: [seen: string, typed: string][],
    options?: { columns?: number },
  ) => Promise<Ended>
}

export const hasTerminals =
  spawnSync('python3', ['-c', 'import pty, os; os.waitstatus_to_exitcode']).status === 0

export async function ended(child: ChildProcess): Promise<Ended> {
  let [out, err] = ['', '']
  child.stdout!.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err, json: jsonOf(out) }
}

const jsonOf = (out: string): Json[] =>
  out.startsWith('{') || out.startsWith('[')
    ? out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line))
    : []

/**
 * Runs a program in a terminal, types an answer when a text appears, and prints what the terminal showed.
 */
const terminal = `
import fcntl, os, pty, select, struct, sys, termios
columns = int(sys.argv.pop(1))
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
steps = [step.split('=>') for step in sys.argv[1].split('|') if step]
seen = b''
at = 0
def type(answer):
    os.write(fd, answer.encode().decode('unicode_escape').encode())
while steps and steps[0][0] == '':
    type(steps.pop(0)[1])
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    seen += data
    while steps and steps[0][0].encode() in seen[at:]:
        wanted, answer = steps.pop(0)
        at = len(seen)
        type(answer)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
`

export async function commandLine(
  t: Test,
  service: Awaited<ReturnType<typeof startService>>,
): Promise<CommandLine> {
  const folder = path.join(service.dataFolder, 'command line')
  await mkdir(folder)
  const environment = (more: Record<string, string> = {}): Record<string, string> => ({
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '',
    ROLLCALL_URL: service.processes['control-plane']!.ready.http!,
    ROLLCALL_FTP: (service.processes.ftp!.ready as Json).ftp,
    ROLLCALL_API_KEY: bootstrapKey,
    ...more,
  })
  const start = (args: string[], more?: Record<string, string>): ChildProcess => {
    const child = spawn(process.execPath, [program, ...args], { cwd: folder, env: environment(more) })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
  return {
    folder,
    environment,
    start,
    run(args, options = {}) {
      const child = start(args, options.settings)
      child.stdin!.end(options.input ?? '')
      return ended(child)
    },
    call: (args, more) => callCommand(args, environment(more)),
    async file(name, content) {
      const written = path.join(folder, name)
      await writeFile(written, content)
      return written
    },
    onTerminal(args, steps, { columns = 80 } = {}) {
      const script = steps.map((step) => step.join('=>')).join('|')
      const child = spawn(
        'python3',
        ['-c', terminal, String(columns), script, process.execPath, program, ...args],
        { cwd: folder, env: environment({ TERM: 'xterm' }) },
      )
      t.teardown(() => child.kill('SIGKILL'))
      child.stdin.end()
      return ended(child)
    },
  }
}

/** Runs the command with streams of the test; main.ts passes those of a process. */
async function callCommand(args: string[], env: Record<string, string>): Promise<Ended> {
  const settings = loadClientSettings(env)
  const said = { out: '', err: '' }
  const stream = (which: keyof typeof said) =>
    new Writable({
      write(text: Buffer, _, done) {
        said[which] += text.toString()
        done()
      },
    }) as unknown
  const terminal = {
    input: new PassThrough() as unknown,
    out: stream('out'),
    err: stream('err'),
    hasColours: false,
  } as Terminal
  const client = new ApiClient(settings.ROLLCALL_URL, settings.ROLLCALL_API_KEY)
  const say = (text: string) => void terminal.out.write(`${text}\n`)
  const print = (value: unknown) => {
    say(JSON.stringify(value))
  }
  let code = -1
  const program = buildProgram({
    terminal,
    openSession: () => ({ client, settings, terminal, exitCodeUnread: 0, print, say }),
    onEnd: (exitCode) => (code = exitCode),
  })
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    const { lines, hint } = explain(error, { hasKey: true })
    if (error instanceof CommanderError) code = 2
    else {
      code = error instanceof CommandFailure ? error.exitCode : 1
      said.err += [...lines, hint ?? ''].join('\n')
    }
  } finally {
    await client.destroy()
  }
  return { code, ...said, json: jsonOf(said.out) }
}
