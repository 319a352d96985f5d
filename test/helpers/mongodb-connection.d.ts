/** What tests use of the driver's connections, besides shared/runtime/mongodb-connection.d.ts. */
declare module 'mongodb/lib/cmap/connection.js' {
  import type { ClientSession } from 'mongodb'

  interface Connection {
    command(
      namespace: unknown,
      command: Record<string, unknown>,
      options?: { session?: ClientSession },
      responseType?: unknown,
    ): Promise<unknown>
  }
}
