import { failureReason, logFileAct, loggedFileAct } from '../../shared/storage/uploads/file-acts.ts'
import type { ListedFile } from '../ftp-directory.ts'
import { FtpError, printable, refusal } from '../ftp-error.ts'
import { listingLine, type ReplyLine } from '../ftp-srv-internals.ts'
import { factLine, factNames, formatTime, parseTime } from '../listing.ts'
import type { LoggedInSession } from '../session.ts'
import type { CommandDefinition, CommandDefinitions } from './command-table.ts'

const changeDirectory: CommandDefinition = {
  parameters: '<path>',
  description: 'Change the directory',
  handler: (session, arg) => replyDirectory(session, 250, session.fs.chdir(arg ?? '.')),
}
const toParent: CommandDefinition = {
  description: 'Change to the parent directory',
  handler: (session) => replyDirectory(session, 250, session.fs.chdir('..')),
}
const printDirectory: CommandDefinition = {
  description: 'Print the current directory',
  handler: (session) => replyDirectory(session, 257, session.fs.currentDirectory()),
}
const refuseFolder: CommandDefinition = {
  parameters: '<path>',
  description: 'Refused: clients make and remove no folders',
  async handler(_session, arg) {
    throw refusal(550, arg, 'folders are not made or removed by clients')
  },
}

/** Commands on files and their names: RFC 959, RFC 2389, RFC 3659. */
export const fileCommands: CommandDefinitions = {
  CWD: changeDirectory,
  XCWD: changeDirectory,
  CDUP: toParent,
  XCUP: toParent,
  PWD: printDirectory,
  XPWD: printDirectory,
  MKD: refuseFolder,
  XMKD: refuseFolder,
  RMD: refuseFolder,
  XRMD: refuseFolder,
  SIZE: {
    parameters: '<name>',
    description: 'Size of a file in bytes; of an unfinished upload, the bytes received so far',
    async handler(session, arg) {
      const { size } = await findFile(session, arg, { resumable: true })
      await session.reply(213, String(size))
    },
  },
  MDTM: {
    parameters: '[<YYYYMMDDHHMMSS>] <name>',
    description: 'Time of the last change of a file; with a time, sets it',
    handler: async (session, arg) => session.reply(213, formatTime(await findOrSetTime(session, arg))),
  },
  MFMT: {
    parameters: '<YYYYMMDDHHMMSS> <name>',
    description: 'Set the time of the last change of a file',
    async handler(session, arg) {
      const change = parseTimeAndName(arg)
      if (change === null) throw refusal(501, arg, `MFMT needs ${timeAndName}`)
      await setTime(session, change)
      await session.reply(213, `Modify=${formatTime(change.time)}; ${printable(change.name)}`)
    },
  },
  SITE: {
    parameters: 'CHMOD <mode> <name> | UMASK [<mode>] | UTIME <YYYYMMDDHHMMSS> <name> | HELP',
    description: 'Take what clients send after an upload; modes are not kept',
    async handler(session, arg) {
      const [, name = '', rest = ''] = /^(\S*) *(.*)$/.exec(arg ?? '') ?? []
      switch (name.toUpperCase()) {
        case '':
          throw new FtpError(501, 'SITE needs a command; SITE HELP lists them')
        case 'CHMOD':
          if (!/^\S+ +\S/.test(rest)) throw refusal(501, rest, 'SITE CHMOD needs a mode and a name')
          return session.reply(200, 'modes of files are not kept')
        case 'UMASK':
          return session.reply(200, 'modes of files are not kept')
        case 'UTIME': {
          const change = parseUtime(rest)
          if (change === null) throw refusal(501, rest, `SITE UTIME needs ${timeAndName}`)
          await setTime(session, change)
          return session.reply(200, `${printable(change.name)}: time set to ${formatTime(change.time)}`)
        }
        case 'HELP': {
          const commands = ['CHMOD <mode> <name>', 'UMASK [<mode>]', 'UTIME <YYYYMMDDHHMMSS> <name>', 'HELP']
          return session.reply(214, 'SITE commands', ...commands.map(indented), 'end of SITE commands')
        }
        default:
          throw new FtpError(504, `SITE ${printable(name)} is not supported; SITE HELP lists what is`)
      }
    },
  },
  MLST: {
    parameters: '[<name>]',
    description: 'Facts of one file, for programs',
    async handler(session, arg) {
      const file = await session.fs.get(arg ?? '')
      const name = arg === null ? session.fs.currentDirectory() : file.name
      const line = factLine(file, session.facts, name)
      await session.reply(250, `facts of ${name}`, indented(line), 'end of facts')
    },
  },
  STAT: {
    parameters: '[<name>]',
    description: 'Status of the session, or a listing of the file or of the directory',
    async handler(session, arg) {
      if (arg === null) return session.reply(211, 'no transfer in progress')
      const files = await session.fs.list(arg)
      const lines = files.map((file) => indented(listingLine(file)))
      return session.reply(213, `status of ${printable(arg)}`, ...lines, 'end of status')
    },
  },
  DELE: {
    parameters: '<name>',
    description: 'Delete a file, or an unfinished upload when there is no finished file of the name',
    async handler(session, arg) {
      const filename = session.fs.nameOf(arg ?? '')
      await loggedFileAct(session.clientLog, { event: 'delete', protocol: 'ftp', filename }, () =>
        session.fs.delete(arg ?? ''),
      )
      await session.reply(250, `${printable(arg ?? '')}: deleted`)
    },
  },
  RNFR: {
    parameters: '<name>',
    description: 'The file to rename',
    async handler(session, arg) {
      session.renameFrom = undefined
      const filename = session.fs.nameOf(arg ?? '')
      const act = { event: 'rename', protocol: 'ftp', filename } as const
      const file = await findFile(session, arg).catch((error: unknown) => {
        logFileAct(session.clientLog, { ...act, result: 'refused', reason: failureReason(error, [FtpError]) })
        throw error
      })
      session.renameFrom = session.fs.absolute(arg ?? '')
      await session.reply(350, `${file.name}: send RNTO with the new name`)
    },
  },
  RNTO: {
    parameters: '<name>',
    description: 'The new name; an existing file of that name is replaced',
    async handler(session, arg) {
      const { renameFrom } = session
      if (renameFrom === undefined) throw new FtpError(503, 'send RNFR with the old name first')
      session.renameFrom = undefined
      const [filename, to] = [session.fs.nameOf(renameFrom), session.fs.nameOf(arg ?? '')]
      await loggedFileAct(session.clientLog, { event: 'rename', protocol: 'ftp', filename, to }, () =>
        session.fs.rename(renameFrom, arg ?? ''),
      )
      await session.reply(250, `${printable(renameFrom)}: renamed to ${printable(arg ?? '')}`)
    },
  },
  TYPE: {
    parameters: 'A|I',
    description: 'Type of transfer; bytes are stored unchanged in both types',
    isBeforeLogin: true,
    async handler(session, arg) {
      const type = arg ?? ''
      if (/^(E|L ?\d*)( .*)?$/i.test(type) && !/^L ?8$/i.test(type))
        throw new FtpError(504, `TYPE ${printable(type)} is not supported; use TYPE A or TYPE I`)
      if (!/^(A( N)?|I|L ?8)$/i.test(type))
        throw new FtpError(501, `TYPE ${printable(type)} is not valid; use TYPE A or TYPE I`)
      await session.reply(200, 'bytes are transferred unchanged in every type')
    },
  },
  REST: {
    parameters: '<byte>',
    description: 'The byte at which the next transfer starts',
    async handler(session, arg) {
      if (!/^\d{1,15}$/.test(arg ?? '')) throw refusal(501, arg, 'REST needs a whole number of bytes from 0')
      session.restByteCount = Number(arg)
      await session.reply(350, `the next transfer starts at byte ${Number(arg)}`)
    },
  },
  FEAT: {
    description: 'List the extensions',
    isBeforeLogin: true,
    async handler(session) {
      const mlst = factNames
        .map((name) => `${name}${session.facts?.includes(name) === false ? '' : '*'};`)
        .join('')
      const tlsFeatures = session.context.certificate === null ? [] : ['AUTH TLS', 'PBSZ', 'PROT']
      const features = [
        ...tlsFeatures,
        'CLNT',
        'EPRT',
        'EPSV',
        'HOST',
        'MDTM',
        'MFMT',
        `MLST ${mlst}`,
        'REST STREAM',
        'SIZE',
        'TVFS',
        'UTF8',
      ].sort()
      await session.reply(211, 'extensions', ...features.map(indented), 'end of extensions')
    },
  },
  OPTS: {
    parameters: 'UTF8 ON | MLST <fact;...>',
    description: 'Set an option of an extension',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (/^utf-?8( on)?$/i.test(arg ?? '')) return session.reply(200, 'names are always UTF-8')
      const match = /^mlst(?: (.*))?$/i.exec(arg ?? '')
      if (match === null) throw refusal(501, arg, 'use OPTS UTF8 ON, or OPTS MLST and names of facts')
      const wanted = (match[1] ?? '').toLowerCase().split(';')
      session.facts = factNames.filter((name) => wanted.includes(name))
      return session.reply(200, `MLST OPTS ${session.facts.map((name) => `${name};`).join('')}`.trimEnd())
    },
  },
}

async function replyDirectory(
  session: LoggedInSession,
  code: number,
  directory: string | Promise<string>,
): Promise<unknown> {
  return session.reply(code, `"${await directory}" is the current directory`)
}

async function findFile(
  session: LoggedInSession,
  arg: string | null,
  options?: { resumable: boolean },
): Promise<ListedFile> {
  const file = await session.fs.get(arg ?? '', options)
  if (file.isFile()) return file
  throw refusal(550, arg, 'not a file but a directory; give the name of a file')
}

interface TimeChange {
  time: Date
  name: string
}

const timeAndName = 'a time in UTC from 1970 on, YYYYMMDDHHMMSS, and a name'

function parseTimeAndName(arg: string | null): TimeChange | null {
  const [, digits = '', name = ''] = /^(\S+) (.+)$/.exec(arg ?? '') ?? []
  const time = parseTime(digits)
  return time === null ? null : { time, name }
}

/** Parses what follows SITE UTIME: `TIME NAME`, where the seconds may be missing, or `NAME ATIME MTIME CTIME UTC`. */
function parseUtime(text: string): TimeChange | null {
  const [, name, modified] = /^(.+) \d{14} (\d{14}) \d{14} UTC$/i.exec(text) ?? []
  return parseTimeAndName(
    name === undefined ? text.replace(/^\d{12}(?= )/, '$&00') : `${modified ?? ''} ${name}`,
  )
}

/** The time of the file with this name; without such a file, `TIME NAME` sets the time of the file NAME. */
async function findOrSetTime(session: LoggedInSession, arg: string | null): Promise<Date> {
  try {
    return (await session.fs.get(arg ?? '')).mtime
  } catch (error) {
    const change = parseTimeAndName(arg)
    if (change === null) throw error
    await setTime(session, change)
    return change.time
  }
}

async function setTime(session: LoggedInSession, { time, name }: TimeChange): Promise<void> {
  await findFile(session, name)
  await session.fs.setTime(name, time)
}

/** A line inside of a reply: the blank in front tells it from the reply's last line. */
const indented = (line: string): ReplyLine => ({ message: ` ${line}`, raw: true })
