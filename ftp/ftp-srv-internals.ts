import { createRequire } from 'node:module'
import type { Stats } from 'node:fs'
import type { Server, Socket } from 'node:net'
import type { FtpConnection, FtpServer } from 'ftp-srv'
import type { UploadDirectory } from './upload-directory.ts'

/**
 * The parts of ftp-srv 4.6.3 that it doesn't declare and that our layer needs: its commands table, a session's
 * control socket, its data connector, the lines of a listing. The version is pinned; a test goes through every one of
 * them.
 */

export interface Command {
  directive: string
  arg: string | null
  flags: string[]
  raw: string
}

export interface Session extends Omit<FtpConnection, 'reply' | 'close'> {
  commandSocket: Socket
  commands: { handle(command: Command): Promise<unknown> }
  connector: DataConnector
  username?: string | undefined
  authenticated?: boolean
  fs?: UploadDirectory
  reply(code: number, message?: string): Promise<unknown>
  close(code?: number, message?: string): Promise<unknown>
}

export interface DataConnector {
  type: string | false
  dataSocket: (Socket & { connected?: boolean }) | null
  setupServer(): Promise<Server>
  closeSocket(): void
  closeServer(): void
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

type ConnectorClass = new (session: Session) => DataConnector & { connection: Session }

const require = createRequire(import.meta.url)

export const commandTable = require('ftp-srv/src/commands/registry.js') as Record<string, CommandEntry>

/** A line of `ls -l`. */
export const listingLine = require('ftp-srv/src/helpers/file-stat.js') as (
  stats: Stats & { name: string },
) => string

const NoConnector = require('ftp-srv/src/connector/base.js') as ConnectorClass
const ListeningConnector = require('ftp-srv/src/connector/passive.js') as ConnectorClass

/**
 * Waits for a client's data connection. ftp-srv's own clears the session's connector once more when its server has
 * closed at last, which may be when the session already has the next one.
 */
export class PassiveConnector extends ListeningConnector {
  override end(): void {
    this.closeSocket()
    this.closeServer()
    this.type = false
    if (this.connection.connector === this) this.connection.connector = new NoConnector(this.connection)
  }
}
