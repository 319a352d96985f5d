import { Connection } from 'mongodb/lib/cmap/connection.js'

/**
 * Ends the write of a command when its connection is closed. The driver (7.8, 7.9) waits for the socket's `drain` or
 * `error`. So it waits forever for a connection that a timeout or a cleared pool has closed. An error of the socket it
 * throws as it is, and it neither repeats such a command nor looks for another primary. After a write that is done the
 * driver throws the error with which the connection was closed. Why: docs/decisions/205-writes-to-closed-connections.md
 */
const { cleanup } = Connection.prototype
Connection.prototype.cleanup = function (error) {
  cleanup.call(this, error)
  // A command may have begun before the connection was closed, and only be written now.
  this.socket.write = () => true
  this.socket.emit('drain')
}
