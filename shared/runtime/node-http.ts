/**
 * Parts of `node:http`. A process imports them from here: `import 'node:http'` reads every export of the module, and one
 * of them, WebSocket, makes Node load its own undici, which costs 25 to 50 ms of processor time at each start.
 */
export const { createServer, STATUS_CODES } = process.getBuiltinModule('node:http')
