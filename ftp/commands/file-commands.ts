import { FtpError } from '../ftp-error.ts'
import { listingLine } from '../ftp-srv-internals.ts'
import { factLine, factNames, timeFact } from '../listing.ts'
import type { FtpSession } from '../session.ts'
import type { OwnCommands } from './command-table.ts'

const changeDirectory: OwnCommands[string] = {
  parameters: '<path>',
  description: 'Change the directory; there is only one',
  handler: async (session, arg) => session.reply(250, `"${await session.fs!.chdir(arg ?? '.')}" it is`),
}
const toParent = {
  description: 'Stay in the one directory',
  handler: async (session: FtpSession) => session.reply(250, `"${await session.fs!.chdir('..')}" it is`),
}
const printDirectory = {
  description: 'The directory',
  handler: async (session: FtpSession) => session.reply(257, `"${session.fs!.currentDirectory()}" it is`),
}
const noFolders = {
  parameters: '<path>',
  description: 'Folders are not possible here',
  handler: async () => {
    throw new FtpError(550, 'folders are not possible here')
  },
}

/** Files and what is said of them: RFC 959, RFC 2389, RFC 3659. */
export const fileCommands: OwnCommands = {
  CWD: changeDirectory,
  XCWD: changeDirectory,
  CDUP: toParent,
  XCUP: toParent,
  PWD: printDirectory,
  XPWD: printDirectory,
  MKD: noFolders,
  XMKD: noFolders,
  RMD: noFolders,
  XRMD: noFolders,
  SIZE: {
    parameters: '<name>',
    description: 'Bytes of a file; of an unfinished upload, so many as are there',
    async handler(session, arg) {
      const file = await session.fs!.get(arg ?? '', { resumable: true })
      if (!file.isFile()) throw new FtpError(550, 'that is no file')
      await session.reply(213, String(file.size))
    },
  },
  MDTM: {
    parameters: '<name>',
    description: 'When a file changed',
    handler: async (session, arg) => session.reply(213, timeFact((await session.fs!.get(arg ?? '')).mtime)),
  },
  MLST: {
    parameters: '[<name>]',
    description: 'Facts of a file',
    async handler(session, arg) {
      const file = await session.fs!.get(arg ?? '')
      const line = factLine(file, session.facts, arg === null ? '/' : file.name)
      await session.reply(250, 'these are the facts', { message: ` ${line}`, raw: true }, 'and no more')
    },
  },
  STAT: {
    parameters: '[<name>]',
    description: 'How the session stands, or a listing',
    async handler(session, arg) {
      if (arg === null) return session.reply(211, 'all is well, nothing is being transferred')
      const lines = (await session.fs!.list(arg)).map((file) => listingLine(file))
      return session.reply(
        213,
        'files',
        ...lines.map((line) => ({ message: ` ${line}`, raw: true as const })),
        'end',
      )
    },
  },
  DELE: {
    parameters: '<name>',
    description: 'Delete a file, or an unfinished upload that stands alone',
    async handler(session, arg) {
      await session.fs!.delete(arg ?? '')
      await session.reply(250, 'the file is gone')
    },
  },
  RNFR: {
    parameters: '<name>',
    description: 'The file to rename',
    async handler(session, arg) {
      session.renameFrom = undefined
      const file = await session.fs!.get(arg ?? '')
      if (!file.isFile()) throw new FtpError(550, 'that is no file')
      session.renameFrom = arg ?? ''
      await session.reply(350, 'now RNTO and the new name')
    },
  },
  RNTO: {
    parameters: '<name>',
    description: 'The new name; a file that has it is replaced',
    async handler(session, arg) {
      const { renameFrom } = session
      if (renameFrom === undefined) throw new FtpError(503, 'send RNFR first')
      session.renameFrom = undefined
      await session.fs!.rename(renameFrom, arg ?? '')
      await session.reply(250, 'the file has its new name')
    },
  },
  TYPE: {
    parameters: 'A|I',
    description: 'Type of transfer; bytes are stored as they come in each',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (/^(E|L ?\d*)( .*)?$/i.test(arg ?? '') && !/^L ?8$/i.test(arg ?? ''))
        throw new FtpError(504, 'there is TYPE A and TYPE I only')
      if (!/^(A( N)?|I|L ?8)$/i.test(arg ?? '')) throw new FtpError(501, 'there is TYPE A and TYPE I only')
      await session.reply(200, 'bytes go as they are')
    },
  },
  REST: {
    parameters: '<byte>',
    description: 'Where the next transfer begins',
    async handler(session, arg) {
      if (!/^\d{1,15}$/.test(arg ?? '')) throw new FtpError(501, 'the byte must be a number from 0')
      session.restByteCount = Number(arg)
      await session.reply(350, `the next transfer begins at ${Number(arg)}`)
    },
  },
  FEAT: {
    description: 'Extensions that there are',
    isBeforeLogin: true,
    async handler(session) {
      const mlst = factNames
        .map((name) => `${name}${session.facts?.includes(name) === false ? '' : '*'};`)
        .join('')
      const ofTls = session.context.certificate === null ? [] : ['AUTH TLS', 'PBSZ', 'PROT']
      const features = [
        ...ofTls,
        'EPRT',
        'EPSV',
        'MDTM',
        `MLST ${mlst}`,
        'REST STREAM',
        'SIZE',
        'TVFS',
        'UTF8',
      ].sort()
      const lines = features.map((feature) => ({ message: ` ${feature}`, raw: true as const }))
      await session.reply(211, 'extensions', ...lines, 'end')
    },
  },
  OPTS: {
    parameters: 'UTF8 ON | MLST <fact;...>',
    description: 'Choose among the extensions',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (/^utf-?8( on)?$/i.test(arg ?? '')) return session.reply(200, 'names are UTF-8, always')
      const asked = /^mlst(?: (.*))?$/i.exec(arg ?? '')
      if (asked === null) throw new FtpError(501, 'there is OPTS UTF8 ON and OPTS MLST only')
      const wanted = (asked[1] ?? '').toLowerCase().split(';')
      session.facts = factNames.filter((name) => wanted.includes(name))
      return session.reply(200, `MLST OPTS ${session.facts.map((name) => `${name};`).join('')}`.trimEnd())
    },
  },
}
