import { fileURLToPath } from 'node:url'

/**
 * The programs of the service, with what must stand in their environment before they start.
 *
 * Hundreds of FTP sessions write files at once, each write on a thread of libuv's pool, which has four by default. Two
 * allocator arenas instead of eight a core, and compiled code kept between starts, take the engine's memory over a
 * million rows from 450 to 350 MB, and halve the time to its ready line; what its main thread has young, 30 MB more.
 *
 * Heaps have bounds, as a container's memory has one beside them (docs/operating.md): V8 collects before it is reached.
 */
const compileCache = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/rollcall', import.meta.url)),
}
const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

export const programs = {
  'control-plane': {
    file: file('../main.ts'),
    environment: { ...compileCache, NODE_OPTIONS: '--max-old-space-size=512' },
  },
  engine: {
    file: file('../../engine/main.ts'),
    environment: {
      ...compileCache,
      UV_THREADPOOL_SIZE: '32',
      MALLOC_ARENA_MAX: '2',
      NODE_OPTIONS: '--max-semi-space-size=8 --max-old-space-size=512',
    },
  },
  ftp: {
    file: file('../../ftp/main.ts'),
    environment: { ...compileCache, UV_THREADPOOL_SIZE: '32', NODE_OPTIONS: '--max-old-space-size=512' },
  },
} as const

/** All three, supervised. */
export const startProgram = { file: file('./start.ts'), environment: compileCache }
