import { Connection } from 'mongodb/lib/cmap/connection.js'

/**
 * Ends the write of a command when its connection is closed. The driver (7.8, 7.9) waits for `drain` or `error` of the
 * socket. A connection that a timeout or a cleared pool has closed emits neither, so the driver would wait forever.
 *
 * `drain` is emitted, and the driver then throws the error with which the connection was closed. It would throw an
 * `error` of the socket as it is, and neither repeat the command nor look for another primary. Numbers and what was
 * rejected: docs/decisions/205-writes-to-closed-connections.md
 */
const { cleanup } = Connection.prototype
Connection.prototype.cleanup = function (error) {
  cleanup.call(this, error)
  // A command may have begun before the connection was closed, and only be written now.
  this.socket.write = () => true
  this.socket.emit('drain')
}
