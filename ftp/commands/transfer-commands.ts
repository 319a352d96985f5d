import { Readable } from 'node:stream'
import { FtpError } from '../ftp-error.ts'
import { listingLine, type ListedFile } from '../ftp-srv-internals.ts'
import { factLine } from '../listing.ts'
import { filesLike, isPattern, maxPatternLength } from '../name-pattern.ts'
import type { FtpSession } from '../session.ts'
import { receiveUpload, send } from '../transfers.ts'
import type { OwnCommands } from './command-table.ts'

/** What uses the data connection, and ABOR. */
export const transferCommands: OwnCommands = {
  ALLO: {
    parameters: '<bytes>',
    description: 'Announce the length of the next upload',
    async handler(session, arg) {
      const bytes = /^(\d{1,15})( R \d{1,15})?$/i.exec(arg ?? '')?.[1]
      if (bytes === undefined) throw new FtpError(501, 'ALLO is followed by a number of bytes')
      session.announced = Number(bytes)
      await session.reply(200, 'noted for the next upload')
    },
  },
  STOR: {
    parameters: '<name>',
    description: 'Upload a file; after REST, go on with it',
    handler: (session, arg) => store(session, arg, { append: false }),
  },
  APPE: {
    parameters: '<name>',
    description: 'Upload the rest of a file',
    handler: (session, arg) => store(session, arg, { append: true }),
  },
  RETR: {
    parameters: '<name>',
    description: 'Download a file',
    async handler(session, arg) {
      const start = takeStart(session) ?? 0
      await send(session, () => session.fs!.read(arg ?? '', start), { isFile: true })
      await session.reply(226, 'that was the file')
    },
  },
  LIST: {
    parameters: '[<name or pattern>]',
    description: 'Files as ls -l shows them',
    handler: (session, arg) => list(session, withoutFlags(arg), listingLine),
  },
  NLST: {
    parameters: '[<name or pattern>]',
    description: 'Names of files',
    handler: (session, arg) => list(session, withoutFlags(arg), ({ name }) => name),
  },
  MLSD: {
    parameters: '[<path>]',
    description: 'Facts of the files',
    async handler(session, arg) {
      if (!(await session.fs!.get(arg ?? '')).isDirectory())
        throw new FtpError(501, 'MLSD is for the directory')
      await list(session, arg ?? '', (file) => factLine(file, session.facts))
    },
  },
  /** The transfer ended before, with 426, or was complete; see Interruption. */
  ABOR: {
    description: 'Break the transfer off',
    async handler(session) {
      session.data?.close()
      session.data = null
      await session.reply(226, 'nothing is being transferred any more')
    },
  },
}

async function store(
  session: FtpSession,
  arg: string | null,
  { append }: { append: boolean },
): Promise<void> {
  const start = takeStart(session)
  const { announced } = session
  session.announced = undefined
  await receiveUpload(session, () => session.fs!.beginUpload(arg ?? '', { append, start, announced }))
  await session.reply(226, 'the file is complete')
}

/** Clients ask for `-a` and `-l` before the path, which is what they get anyway. */
const withoutFlags = (arg: string | null): string => (arg ?? '').replace(/^(-[A-Za-z]+( |$))+/, '')

async function list(session: FtpSession, path: string, lineOf: (file: ListedFile) => string): Promise<void> {
  const text = async (signal: AbortSignal) => {
    const lines = (await listedFiles(session, path, signal)).map((file) => `${lineOf(file)}\r\n`)
    return Readable.from(lines, { objectMode: false })
  }
  await send(session, text, { isFile: false })
  await session.reply(226, 'that was the list')
}

/** A pattern that nothing matches is an empty list: for `mget` that isn't an error. */
async function listedFiles(session: FtpSession, path: string, signal: AbortSignal): Promise<ListedFile[]> {
  const pattern = path.replace(/^(\.?\/)+/, '')
  if (!isPattern(pattern) || pattern.includes('/')) return session.fs!.list(path)
  if (pattern.length > maxPatternLength)
    throw new FtpError(501, `a pattern has at most ${maxPatternLength} characters`)
  const files = await session.fs!.list()
  // A name may look like a pattern.
  const named = files.filter(({ name }) => name === pattern)
  if (named.length > 0) return named
  return filesLike(files, pattern, signal)
}

/** REST is for the next transfer only, also when that is refused. */
function takeStart(session: FtpSession): number | undefined {
  const start = session.restByteCount
  session.restByteCount = 0
  return start
}
