import { createRequire } from 'node:module'
import type { Server, Socket } from 'node:net'
import type { FtpConnection, FtpServer } from 'ftp-srv'
import type { UploadDirectory } from './upload-directory.ts'

/**
 * The parts of ftp-srv 4.6.3 that it doesn't declare and that our layer needs: its commands table, a session's
 * control socket, its data connector. The version is pinned; a test goes through every one of them.
 */

export interface Command {
  directive: string
  arg: string | null
}

export interface Session extends Omit<FtpConnection, 'reply' | 'close'> {
  commandSocket: Socket
  commands: { handle(line: string): Promise<unknown> }
  connector: DataConnector
  username?: string | undefined
  authenticated?: boolean
  fs?: UploadDirectory
  reply(code: number, message?: string): Promise<unknown>
  close(code?: number, message?: string): Promise<unknown>
}

export interface DataConnector {
  type: string | false
  waitForConnection(options?: { timeout?: number; delay?: number }): Promise<Socket>
  setupServer(): Promise<Server>
  end(): void
}

export interface CommandEntry {
  directive: string
  handler(this: Session, context: { command: Command }): unknown
  flags?: { feat?: string; no_auth?: boolean }
}

export interface ServerInternals extends FtpServer {
  server: Server
  getNextPasvPort: () => Promise<number>
}

const require = createRequire(import.meta.url)

export const commandTable = require('ftp-srv/src/commands/registry.js') as Record<string, CommandEntry>

export const PassiveConnector = require('ftp-srv/src/connector/passive.js') as new (
  session: Session,
) => DataConnector
