/** Internal to the driver, whose version is pinned: one connection to a server. */
declare module 'mongodb/lib/cmap/connection.js' {
  import type { Socket } from 'node:net'

  export class Connection {
    socket: Socket
    /** Closes the connection. The command in progress throws `error`. */
    cleanup: (this: Connection, error: Error) => void
  }
}
