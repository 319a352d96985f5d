import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../shared/logger.ts'
import { commandTable, PassiveConnector, type Command, type Session } from './ftp-srv-internals.ts'
import { FtpError } from './upload-directory.ts'

/**
 * Commands of ours in place of ftp-srv's: uploads that are whole or hidden, passive replies that name the right
 * address. The table is one for the process, so this is done once.
 */
export interface CommandOptions {
  /** The IPv4 address that PASV names; null: the one that the client connected to. */
  publicAddress: string | null
  onBytes: (direction: 'in' | 'out', bytes: number) => void
  log: Logger
}

/** How long the control connection must outlive the data: a client that was killed closes both at once. */
const afterglowMs = 100
const dataConnectionMs = 10_000

export function installCommands(options: CommandOptions): void {
  const store = (append: boolean) =>
    async function (this: Session, { command }: { command: Command }) {
      await receiveUpload(this, command, append, options)
    }
  commandTable['STOR']!.handler = store(false)
  commandTable['APPE']!.handler = store(true)
  commandTable['SIZE']!.handler = async function ({ command }) {
    await answering(this, options.log, async () => {
      const stats = await this.fs!.get(command.arg ?? '', { resumable: true })
      if (!stats.isFile()) throw new FtpError(550, 'not a file')
      await this.reply(213, String(stats.size))
    })
  }
  commandTable['PASV']!.handler = async function () {
    await answering(this, options.log, async () => {
      this.connector = new PassiveConnector(this)
      const server = await this.connector.setupServer()
      const address = options.publicAddress ?? this.commandSocket.localAddress?.replace(/^::ffff:/, '') ?? ''
      if (address.includes(':')) throw new FtpError(522, 'PASV is for IPv4, use EPSV')
      const { port } = server.address() as { port: number }
      await this.reply(
        227,
        `Entering Passive Mode (${[...address.split('.'), port >> 8, port & 255].join(',')})`,
      )
    })
  }
}

async function receiveUpload(
  session: Session,
  command: Command,
  append: boolean,
  options: CommandOptions,
): Promise<void> {
  const start = session.restByteCount
  session.restByteCount = 0
  await answering(session, options.log, async () => {
    const socket = await session.connector.waitForConnection({ timeout: dataConnectionMs }).catch(() => {
      throw new FtpError(425, 'no data connection was opened')
    })
    try {
      const upload = await session.fs!.beginUpload(command.arg ?? '', { append, start })
      await session.reply(150, 'send the data')
      const isWhole = await upload.receive(counted(socket, options.onBytes), () => outlives(session))
      if (isWhole) await session.reply(226, 'the file is complete')
      else options.log.info('an upload whose control connection ended with its data is kept as unfinished')
    } finally {
      session.connector.end()
    }
  })
}

async function* counted(
  socket: AsyncIterable<Buffer>,
  onBytes: CommandOptions['onBytes'],
): AsyncGenerator<Buffer> {
  for await (const piece of socket) {
    onBytes('in', piece.length)
    yield piece
  }
}

/** An end of data says nothing about their completeness; a client that is still there a moment later does. */
async function outlives(session: Session): Promise<boolean> {
  await sleep(afterglowMs)
  const { commandSocket } = session
  return !commandSocket.destroyed && !commandSocket.readableEnded
}

/** Runs a command's work and says what went wrong with it, without paths or stacks of the server. */
async function answering(session: Session, log: Logger, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof FtpError) {
      await session.reply(error.code, error.message)
      return
    }
    log.warn({ err: error }, 'an FTP command failed')
    await session.reply(451, 'the server could not do that just now')
  }
}
