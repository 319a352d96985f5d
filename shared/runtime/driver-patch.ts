import { Connection } from 'mongodb/lib/cmap/connection.js'

/**
 * Ends the write of a command when its connection is closed. The driver (7.8, 7.9) waits for `drain` or `error` of the
 * socket. A connection that a timeout or a cleared pool has closed emits neither, so the driver would wait forever.
 *
 * `drain` is emitted, and the driver then throws the error with which the connection was closed. It would throw an
 * `error` of the socket as it is, and neither repeat the command nor look for another primary.
 *
 * Without it, a command that stalls with bytes left to send, or is closed while `compressors` pack it, never ends (watched
 * for 60 and 30 s); with it, it ends with a network error. `drain` alone comes too early for a command that is still being
 * packed. To recognize the socket's errors later wouldn't make the driver repeat the command. `diagnostics_channel` has
 * the sockets of all libraries. `test/integration/stores/broken-connections.ts` fails without either line, so that another
 * version of the driver is noticed.
 */
const { cleanup } = Connection.prototype
Connection.prototype.cleanup = function (error) {
  cleanup.call(this, error)
  // A command may have begun before the connection was closed, and only be written now.
  this.socket.write = () => true
  this.socket.emit('drain')
}
