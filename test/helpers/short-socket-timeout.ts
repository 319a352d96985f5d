import { clientOptions } from '../../shared/runtime/database.ts'

/**
 * Loaded into an engine before anything else (`node --import`), worker threads included. Its sockets time out after
 * ROLLCALL_TEST_SOCKET_TIMEOUT_MS instead of a minute.
 */
clientOptions.socketTimeoutMS = Number(process.env['ROLLCALL_TEST_SOCKET_TIMEOUT_MS'])
