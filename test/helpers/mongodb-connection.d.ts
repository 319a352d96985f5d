/** Internal to the driver, whose version is pinned: one connection to a server, over which all its commands go. */
declare module 'mongodb/lib/cmap/connection.js' {
  import type { ClientSession } from 'mongodb'

  export class Connection {
    command(
      namespace: unknown,
      command: Record<string, unknown>,
      options?: { session?: ClientSession },
      responseType?: unknown,
    ): Promise<unknown>
  }
}
