import { Readable } from 'node:stream'
import type { Logger } from '../shared/logger.ts'
import { FtpError } from './ftp-error.ts'
import {
  commandTable,
  listingLine,
  PassiveConnector,
  type Command,
  type Session,
} from './ftp-srv-internals.ts'
import { receiveUpload, send, type CountBytes } from './transfers.ts'

/**
 * Commands of ours in place of ftp-srv's: uploads that are whole or hidden, transfers that can be broken off, passive
 * replies that name the right address, replies with codes that exist. The table is one for the process, so this is
 * done once.
 */
export interface CommandOptions {
  /** The IPv4 address that PASV names; null: the one that the client connected to. */
  publicAddress: string | null
  onBytes: CountBytes
  log: Logger
}

type Handler = (session: Session, command: Command) => Promise<unknown>

/** TLS is not offered, folders and modes are not ours to change, and a name that we make up would be of no use. */
const refused = ['AUTH', 'PBSZ', 'PROT', 'SITE', 'RMD', 'XRMD', 'STOU']

/** What FEAT says of them; it adds UTF8. TYPE is no extension. */
const features: Record<string, string> = { EPRT: 'EPRT', EPSV: 'EPSV', REST: 'REST STREAM' }

/** Resolves, when called, once every command that runs has come to its end. */
export function installCommands(options: CommandOptions): () => Promise<void> {
  const running = new Set<Promise<void>>()
  for (const name of refused) Reflect.deleteProperty(commandTable, name)
  for (const [name, feat] of Object.entries(features)) commandTable[name]!.flags = { feat }
  commandTable['TYPE']!.flags = {}
  for (const [name, handler] of Object.entries(handlers(options)))
    commandTable[name]!.handler = function ({ command }) {
      const answer = answering(this, options.log, () => handler(this, command))
      running.add(answer)
      return answer.finally(() => running.delete(answer))
    }
  return async () => {
    await Promise.all(running)
  }
}

function handlers({ publicAddress, onBytes }: CommandOptions): Record<string, Handler> {
  return {
    STOR: (session, command) => store(session, command, { append: false, onBytes }),
    APPE: (session, command) => store(session, command, { append: true, onBytes }),
    async RETR(session, { arg }) {
      const start = takeStart(session) ?? 0
      await send(session, () => session.fs!.read(arg ?? '', start), onBytes)
      await session.reply(226, 'that was the file')
    },
    LIST: (session, command) => list(session, command, listingLine),
    NLST: (session, command) => list(session, command, ({ name }) => name),
    /** The transfer ended before, with 426, or was complete; see Interruption. */
    async ABOR(session) {
      session.connector.end()
      await session.reply(226, 'nothing is being transferred any more')
    },
    async SIZE(session, { arg }) {
      const stats = await session.fs!.get(arg ?? '', { resumable: true })
      if (!stats.isFile()) throw new FtpError(550, 'not a file')
      await session.reply(213, String(stats.size))
    },
    async DELE(session, { arg }) {
      await session.fs!.delete(arg ?? '')
      await session.reply(250, 'the file is gone')
    },
    async PASV(session) {
      const address = publicAddress ?? session.commandSocket.localAddress?.replace(/^::ffff:/, '') ?? ''
      if (address.includes(':')) throw new FtpError(522, 'PASV is for IPv4, use EPSV')
      const port = await listenForData(session)
      const numbers = [...address.split('.'), port >> 8, port & 255].join(',')
      await session.reply(227, `Entering Passive Mode (${numbers})`)
    },
    async EPSV(session) {
      await session.reply(229, `Entering Extended Passive Mode (|||${await listenForData(session)}|)`)
    },
    async OPTS(session, { arg }) {
      if (!/^utf-?8( on)?$/i.test(arg ?? '')) throw new FtpError(501, 'the only option is UTF8 ON')
      await session.reply(200, 'names are UTF-8, always')
    },
  }
}

async function store(
  session: Session,
  { arg }: Command,
  { append, onBytes }: { append: boolean; onBytes: CountBytes },
): Promise<void> {
  const start = takeStart(session)
  await receiveUpload(session, () => session.fs!.beginUpload(arg ?? '', { append, start }), onBytes)
  await session.reply(226, 'the file is complete')
}

type ListedFile = Parameters<typeof listingLine>[0]

/** Clients ask for `-a` and `-l` before the path, which is what they get anyway. */
async function list(session: Session, { arg }: Command, lineOf: (file: ListedFile) => string): Promise<void> {
  const path = (arg ?? '').replace(/^(-[A-Za-z]+( |$))+/, '')
  const text = async () => {
    const lines = (await session.fs!.list(path)).map((file) => `${lineOf(file)}\r\n`)
    return Readable.from(lines, { objectMode: false })
  }
  await send(session, text, () => undefined)
  await session.reply(226, 'that was the list')
}

/** REST is for the next transfer only, also when that is refused. */
function takeStart(session: Session): number | undefined {
  const start = session.restByteCount
  session.restByteCount = 0
  return start
}

async function listenForData(session: Session): Promise<number> {
  session.connector.end()
  const connector = new PassiveConnector(session)
  session.connector = connector
  return ((await connector.setupServer()).address() as { port: number }).port
}

/** Runs a command's work and says what went wrong with it, without paths or stacks of the server. */
async function answering(session: Session, log: Logger, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (error instanceof FtpError) {
      if (error.code === 426) log.info({ err: error.cause }, 'an FTP transfer was broken off')
      await session.reply(error.code, error.message)
      return
    }
    log.warn({ err: error }, 'an FTP command failed')
    await session.reply(451, 'the server could not do that just now')
  }
}
