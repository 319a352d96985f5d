import type { Command } from '../connection/command-lines.ts'
import { FtpError } from '../ftp-error.ts'
import { commandTable, type CommandEntry } from '../ftp-srv-internals.ts'
import type { FtpSession } from '../session.ts'
import { connectionCommands } from './connection-commands.ts'
import { fileCommands } from './file-commands.ts'
import { loginCommands } from './login-commands.ts'
import { transferCommands } from './transfer-commands.ts'

export interface OwnCommand {
  /** Throws an FtpError for a refusal. */
  handler: (session: FtpSession, arg: string | null) => Promise<unknown>
  /** What follows the name, for HELP. */
  parameters?: string
  description: string
  isBeforeLogin?: boolean
}

/** A command name and what it may also be called. */
export type OwnCommands = Record<string, OwnCommand>

const ofFtpSrv = ['HELP', 'MODE', 'NOOP', 'QUIT', 'STRU', 'SYST']

/**
 * The commands that there are: ours, and of ftp-srv's those that touch neither files nor connections. The table is
 * ftp-srv's, one for the process, and knows sessions only by `this`.
 */
export function installCommands(): void {
  for (const name of Object.keys(commandTable))
    if (!ofFtpSrv.includes(name)) Reflect.deleteProperty(commandTable, name)
  const table = commandTable as unknown as Record<string, CommandEntry<FtpSession>>
  for (const commands of [loginCommands, connectionCommands, fileCommands, transferCommands])
    for (const [name, command] of Object.entries(commands)) table[name] = entryOf(command)
}

function entryOf({
  handler,
  parameters,
  description,
  isBeforeLogin = false,
}: OwnCommand): CommandEntry<FtpSession> {
  return {
    handler({ command }: { command: Command }) {
      return answering(this, () => handler(this, command.arg))
    },
    syntax: parameters === undefined ? '{{cmd}}' : `{{cmd}} ${parameters}`,
    description,
    flags: { no_auth: isBeforeLogin },
  }
}

/** Runs a command's work and says what went wrong with it, without paths or stacks of the server. */
async function answering(session: FtpSession, work: () => Promise<unknown>): Promise<void> {
  const { log } = session.context
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
