import { fileURLToPath } from 'node:url'

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
