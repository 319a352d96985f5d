import { UploadRefused } from '../../shared/storage/uploads/upload-refused.ts'
import type { Command } from '../connection/command-lines.ts'
import { toFtpError } from '../ftp-directory.ts'
import { FtpError } from '../ftp-error.ts'
import { commandTable, type CommandEntry } from '../ftp-srv-internals.ts'
import type { FtpSession, LoggedInSession } from '../session.ts'
import { connectionCommands } from './connection-commands.ts'
import { fileCommands } from './file-commands.ts'
import { loginCommands } from './login-commands.ts'
import { transferCommands } from './transfer-commands.ts'

/** Handlers throw an FtpError for a refusal. */
export type CommandDefinition = {
  /** What follows the command's name, for HELP. */
  parameters?: string
  description: string
} & (
  | { isBeforeLogin: true; handler: (session: FtpSession, arg: string | null) => Promise<unknown> }
  | { isBeforeLogin?: false; handler: (session: LoggedInSession, arg: string | null) => Promise<unknown> }
)

/** By the command's name in capitals. */
export type CommandDefinitions = Record<string, CommandDefinition>

const keptFromFtpSrv = ['HELP', 'MODE', 'NOOP', 'QUIT', 'STRU', 'SYST']

/**
 * Replaces the commands of ftp-srv by ours, except those that touch neither files nor connections. ftp-srv has one
 * table for the process, so installing twice changes nothing.
 */
export function installCommands(): void {
  for (const name of Object.keys(commandTable))
    if (!keptFromFtpSrv.includes(name)) Reflect.deleteProperty(commandTable, name)
  for (const commands of [loginCommands, connectionCommands, fileCommands, transferCommands])
    for (const [name, command] of Object.entries(commands)) commandTable[name] = toEntry(command)
}

function toEntry(definition: CommandDefinition): CommandEntry {
  const { parameters, description } = definition
  return {
    handler({ command: { arg } }: { command: Command }) {
      return replyToErrors(this, () => {
        if (definition.isBeforeLogin === true) return definition.handler(this, arg)
        if (this.isLoggedIn()) return definition.handler(this, arg)
        throw new FtpError(530, 'log in first with USER and PASS')
      })
    },
    syntax: parameters === undefined ? '{{cmd}}' : `{{cmd}} ${parameters}`,
    description,
    flags: { no_auth: definition.isBeforeLogin === true },
  }
}

/** Runs a command and replies to what it throws. Errors that aren't refusals are logged and not shown to the client. */
async function replyToErrors(session: FtpSession, work: () => Promise<unknown>): Promise<void> {
  const { log } = session.context
  try {
    await work()
  } catch (thrown) {
    const error = thrown instanceof UploadRefused ? toFtpError(thrown) : thrown
    if (error instanceof FtpError) {
      await session.reply(error.code, error.message)
      return
    }
    log.warn({ err: error }, 'an FTP command failed')
    await session.reply(451, 'the server failed to run the command; try again later')
  }
}
