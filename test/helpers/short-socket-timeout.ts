import { clientOptions } from '../../shared/runtime/database.ts'

/**
 * Loaded into an engine before anything else (`node --import`), worker threads included: its sockets are given up after
 * as many milliseconds as ROLLCALL_TEST_SOCKET_TIMEOUT_MS says, in place of a minute.
 */
clientOptions.socketTimeoutMS = Number(process.env['ROLLCALL_TEST_SOCKET_TIMEOUT_MS'])
