import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { programEnvironment } from '../../shared/runtime/config.ts'
import { programArguments } from '../../shared/runtime/program-arguments.ts'
import { exitCodes } from './exit-codes.ts'

/**
 * The programs of the service, each with its environment, flags of V8 included. This is their definition; package.json,
 * docker-compose.yml and the Dockerfile repeat it, and a test compares them with it (test/unit/shared/runtime/config.test.ts).
 */

/** Bounds the heap, because a container's memory is bounded too (docs/operating.md): V8 collects garbage in time. */
const heapFlag = '--max-old-space-size=512'
/** Saves 30 MB of young objects on the engine's main thread. */
const youngObjectsFlag = '--max-semi-space-size=8'
/** Each write of a file takes a thread of libuv's pool. Its default of four is too few for hundreds of uploads. */
const fileThreads = { UV_THREADPOOL_SIZE: '32' }
/**
 * Two allocator arenas instead of eight a core. With the compile cache they take the engine's memory over a million
 * rows from 450 to 350 MB.
 */
const fewArenas = { MALLOC_ARENA_MAX: '2' }
/** Keeps compiled code between starts, which halves the time to the ready line. */
const compileCache = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/rollcall', import.meta.url)),
}
const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

export const programs = {
  'control-plane': {
    file: file('../main.ts'),
    environment: { ...compileCache, ...fileThreads, NODE_OPTIONS: heapFlag },
  },
  engine: {
    file: file('../../engine/main.ts'),
    environment: {
      ...compileCache,
      ...fileThreads,
      ...fewArenas,
      NODE_OPTIONS: `${youngObjectsFlag} ${heapFlag}`,
    },
  },
  ftp: {
    file: file('../../ftp/main.ts'),
    environment: { ...compileCache, ...fileThreads, NODE_OPTIONS: heapFlag },
  },
} as const

/** All three, supervised. */
export const startProgram = { file: file('./start.ts'), environment: compileCache }

/**
 * Replaces this process by the program (execve), so that signals and the exit code are the program's own. Below `npx`,
 * which starts a shell and on SIGTERM ends only that, this process stays and stops the program when its parent has
 * gone.
 */
export async function becomeProgram(program: {
  file: string
  environment: Record<string, string>
}): Promise<number> {
  const environment = programEnvironment({ fallbacks: program.environment })
  if (process.platform !== 'win32' && environment['npm_command'] !== 'exec')
    process.execve?.(process.execPath, [process.execPath, ...programArguments(program.file)], environment)
  // The program notices by the IPC channel when this process has gone.
  const child = spawn(process.execPath, programArguments(program.file), {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: environment,
  })
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  // A terminal sends Ctrl-C to both, and a second one would end the program at once.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'))
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    child.kill('SIGTERM')
  }, 500)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => {
      clearInterval(watch)
      resolve(code ?? exitCodes.failed)
    })
  })
}
