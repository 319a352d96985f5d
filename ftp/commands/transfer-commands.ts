import { Readable } from 'node:stream'
import { composeName } from '../../shared/values/upload-names.ts'
import type { ListedFile } from '../ftp-directory.ts'
import { FtpError, printable, refusal } from '../ftp-error.ts'
import { listingLine } from '../ftp-srv-internals.ts'
import { factLine } from '../listing.ts'
import { isPattern, matchFiles, maxPatternLength } from '../name-pattern.ts'
import type { FtpSession, LoggedInSession } from '../session.ts'
import { receiveUpload, send, type TransferredFile } from '../transfers.ts'
import type { CommandDefinitions } from './command-table.ts'

/** The commands that use the data connection, and ABOR. */
export const transferCommands: CommandDefinitions = {
  ALLO: {
    parameters: '<bytes>',
    description: 'Announce the size of the next upload',
    async handler(session, arg) {
      const bytes = /^(\d{1,15})( R \d{1,15})?$/i.exec(arg ?? '')?.[1]
      if (bytes === undefined) throw refusal(501, arg, 'ALLO needs a whole number of bytes')
      session.announcedBytes = Number(bytes)
      await session.reply(200, `the next upload may bring ${Number(bytes)} bytes`)
    },
  },
  STOR: {
    parameters: '<name>',
    description: 'Upload a file; after REST, resume its upload',
    handler: (session, arg) => store(session, arg, { append: false }),
  },
  APPE: {
    parameters: '<name>',
    description: 'Append to a file, or resume its upload at the end',
    handler: (session, arg) => store(session, arg, { append: true }),
  },
  RETR: {
    parameters: '<name>',
    description: 'Download a file',
    async handler(session, arg) {
      const start = consumeStart(session) ?? 0
      const file: TransferredFile = { filename: session.fs.nameOf(arg ?? ''), isResumed: start > 0 }
      const open = async () => {
        const { content, size } = await session.fs.read(arg ?? '', start)
        file.size = size
        return content
      }
      await send(session, open, file)
      await session.reply(226, `${printable(arg ?? '')}: download complete`)
    },
  },
  LIST: {
    parameters: '[<name or pattern>]',
    description: 'List files as ls -l does',
    handler: (session, arg) =>
      list(session, withoutFlags(arg), (files) => files.map((file) => listingLine(file))),
  },
  NLST: {
    parameters: '[<name or pattern>]',
    description: 'List names of files',
    handler: (session, arg) => list(session, withoutFlags(arg), listedNames),
  },
  MLSD: {
    parameters: '[<path>]',
    description: 'List the facts of the files, for programs',
    async handler(session, arg) {
      if (!(await session.fs.get(arg ?? '')).isDirectory())
        throw refusal(501, arg, 'MLSD lists the directory; use MLST for one file')
      await list(session, arg ?? '', (files) => files.map((file) => factLine(file, session.facts)))
    },
  },
  /** When its turn comes, the transfer before it has ended: aborted with 426 (interruption.ts), or complete. */
  ABOR: {
    description: 'Abort the transfer',
    async handler(session) {
      session.replaceData(null)
      await session.reply(226, 'no transfer in progress')
    },
  },
}

async function store(
  session: LoggedInSession,
  arg: string | null,
  { append }: { append: boolean },
): Promise<void> {
  const start = consumeStart(session)
  const { announcedBytes } = session
  session.announcedBytes = undefined
  await receiveUpload(session, session.fs.nameOf(arg ?? ''), () =>
    session.fs.beginUpload(arg ?? '', { append, start, announced: announcedBytes }),
  )
  await session.reply(226, `${printable(arg ?? '')}: upload complete`)
}

/** Drops flags such as `-a` and `-l`, which clients put before the path: listings show the same without them. */
const withoutFlags = (arg: string | null): string => (arg ?? '').replace(/^(-[A-Za-z]+( |$))+/, '')

async function list(
  session: LoggedInSession,
  path: string,
  formatLines: (files: ListedFile[], folder: string) => string[],
): Promise<void> {
  const open = async (signal: AbortSignal) => {
    const { files, folder } = await findListed(session, path, signal)
    const lines = formatLines(files, folder).map((line) => `${line}\r\n`)
    return Readable.from(lines, { objectMode: false })
  }
  await send(session, open, null)
  await session.reply(226, 'listing complete')
}

/** Names that a client can send back: in another directory than the current one, with the path of that. */
const listedNames = (files: ListedFile[], folder: string): string[] =>
  files.filter((file) => file.isFile()).map(({ name }) => `${folder}${name}`)

interface Listed {
  files: ListedFile[]
  /** The path of their directory as the client wrote it, with a slash at its end; blank for the current one. */
  folder: string
}

/** A pattern without a match gives an empty list: clients expand `mget` with it and take an error for a failure. */
async function findListed({ fs }: LoggedInSession, path: string, signal: AbortSignal): Promise<Listed> {
  const [, folder = '', last = ''] = /^((?:.*\/)?)([^/]*)$/s.exec(path) ?? []
  const pattern = composeName(last)
  if (!isPattern(pattern)) {
    const files = await fs.listDirectory(path)
    return files === null
      ? { files: [await fs.get(path)], folder: shownFolder(fs, folder) }
      : { files, folder: shownFolder(fs, path) }
  }
  if (pattern.length > maxPatternLength)
    throw new FtpError(
      501,
      `the pattern has ${pattern.length} characters; at most ${maxPatternLength} are allowed`,
    )
  const files = await fs.listDirectory(folder)
  if (files === null) throw refusal(550, folder, 'no such folder')
  // The name of a file may itself contain the characters of a pattern.
  const exactMatches = files.filter(({ name }) => name === pattern)
  const matches = exactMatches.length > 0 ? exactMatches : await matchFiles(files, pattern, signal)
  return { files: matches, folder: shownFolder(fs, folder) }
}

const shownFolder = (fs: LoggedInSession['fs'], path: string): string =>
  fs.absolute(path) === fs.currentDirectory() ? '' : `${path.replace(/\/+$/, '')}/`

/** REST applies to the next transfer only, even when that one is refused. */
function consumeStart(session: FtpSession): number | undefined {
  const start = session.restByteCount
  session.restByteCount = 0
  return start
}
