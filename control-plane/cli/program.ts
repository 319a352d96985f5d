import { Argument, Command, Option } from 'commander'
import { roles } from '../../shared/contract/schemas/api-key.ts'
import { fieldTypes } from '../../shared/contract/schemas/custom-field.ts'
import { logKinds } from '../../shared/contract/schemas/import.ts'
import { binaryMegabyte } from '../byte-sizes.ts'
import { completionScript, shells, type Shell } from './commands/completion.ts'
import { importSource, type ImportFlags } from './commands/import.ts'
import { listImports, moveImport, printLog, showImport } from './commands/imports.ts'
import { becomeProgram } from './commands/processes.ts'
import { createRecord, listRecords } from './commands/records.ts'
import { maxInlineBytes } from './commands/send-file.ts'
import { exitCodes } from './exit-codes.ts'
import { usage } from './failures.ts'
import { positiveInteger, requiredId } from './option-values.ts'
import { programs, startProgram } from './processes.ts'
import { recordGroups, type RecordCommand, type RecordOptions } from './record-groups.ts'
import type { Session } from './session.ts'
import type { Terminal } from './terminal.ts'

/** What the commands need from the process. */
export interface Context {
  terminal: Terminal
  /** Called by the commands that talk to the service. */
  openSession: () => Session
  /** Called with each command's exit code. */
  onEnd: (exitCode: number) => void
}

type Json = { json?: true }

/** Builds the tree of commands, with their arguments, help and actions. */
export function buildProgram({ terminal, openSession, onEnd }: Context): Command {
  const program = new Command('rollcall')
    .description('Import subscribers, and run the service that does it.')
    .option('--json', "print the data of the service's reply as JSON")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => terminal.out.write(text),
      writeErr: (text) => terminal.err.write(text),
      getOutHasColors: () => terminal.hasColours && terminal.out.isTTY,
      getErrHasColors: () => terminal.hasColours && terminal.err.isTTY,
      outputError: (text, write) => {
        write(text.replace(/^error: /, 'rollcall: '))
      },
    })
    .showSuggestionAfterError()
    .showHelpAfterError('(--help lists commands and options)')
    .exitOverride()
    .helpCommand('help [command]', 'show the help of a command')
    .addHelpText(
      'after',
      `
Settings, from the environment or a file .env in the working folder:
  ROLLCALL_URL      where the service is (http://127.0.0.1:8080)
  ROLLCALL_API_KEY  the API key
  ROLLCALL_FTP      where large files are uploaded (port 2121 of the service's host)

Exit codes: ${exitCodes.done} done, ${exitCodes.failed} the service refused or failed, ${exitCodes.wrongUsage} wrong usage,
  ${exitCodes.everyRowFailed} with --watch: every row failed.

Examples:
  rollcall start
  rollcall list create --name News
  rollcall import subscribers.csv --list 1 --watch`,
    )

  program.hook('preAction', (_, command) => {
    if (program.getOptionValue('json') === true) command.setOptionValue('json', true)
  })
  const run: Run =
    (act) =>
    async (...args) =>
      onEnd(await act(...args))

  const start = (name: string, description: string, what: Parameters<typeof becomeProgram>[0]) =>
    program
      .command(name)
      .description(description)
      .addHelpText(
        'after',
        `\nExamples:\n  rollcall ${name}\n  MONGODB_URI=mongodb://db:27017/?replicaSet=rs0 rollcall ${name}`,
      )
      .action(run(() => becomeProgram(what)))
  start('start', 'start the whole service in the foreground', startProgram)
  start('control-plane', 'start the control plane alone', programs['control-plane'])
  start('engine', 'start an engine alone', programs.engine)
  start('ftp', 'start the FTP server alone', programs.ftp)
  program
    .command('recover-key')
    .description("make a system-admin key, straight in the service's database, and print it")
    .addHelpText(
      'after',
      "\nIt takes the database's settings (MONGODB_URI, or DATA_DIR), no API key.\n\nExamples:\n  rollcall recover-key\n  export ROLLCALL_API_KEY=$(rollcall recover-key)",
    )
    .action(
      run(async ({ json }: Json) => {
        // The database's driver is loaded for this command alone.
        const { makeRecoveredKey } = await import('./commands/recover-key.ts')
        const key = await makeRecoveredKey()
        terminal.out.write(`${json === true ? JSON.stringify({ key }) : key}\n`)
        return exitCodes.done
      }),
    )

  addImportCommands(program, run, openSession)
  addRecordCommands(program, run, openSession, terminal)

  program
    .command('completion')
    .description('print a script that completes commands in a shell')
    .addArgument(new Argument('<shell>').choices(shells))
    .addHelpText(
      'after',
      '\nExamples:\n  source <(rollcall completion bash)\n  rollcall completion zsh > ~/.zfunc/_rollcall\n  rollcall completion fish | source',
    )
    .action(
      run(async (shell: Shell) => {
        terminal.out.write(completionScript(program, shell, knownValues))
        return exitCodes.done
      }),
    )
  return program
}

/** Values that completion offers where only the service checks them. */
const knownValues: Record<string, readonly string[]> = {
  kind: logKinds,
  '--type': fieldTypes,
  '--role': roles,
  '--scope': ['active', 'finished', 'recent', 'all'],
}

/**
 * Makes a command's action of a function that takes its arguments and then its options, and resolves to an exit code.
 */
type Run = <Args extends unknown[]>(
  act: (...args: Args) => Promise<number>,
) => (...args: Args) => Promise<void>

function addImportCommands(program: Command, run: Run, openSession: () => Session): void {
  program
    .command('import')
    .summary('import a file or a URL')
    .description(
      'Import a file (- is standard input) or a URL into a mailing list. The meaning of each column is guessed and shown; on a terminal you are asked to confirm it.',
    )
    .argument('<file>', 'the file, or the URL')
    .addOption(requiredId('--list <id>', 'the mailing list'))
    .option(
      '--map <names>',
      'what each column is: email, another built-in column, a custom field, or - to ignore it',
    )
    .option('--overwrite', 'overwrite subscribers who exist already')
    .option('--dry-run', 'do everything but the writes')
    .option('--watch', 'follow the import to its end')
    .addOption(new Option('--via <way>', 'how the file is sent').choices(['inline', 'ftp']))
    .option('--begins-at <time>', 'when it begins, by default now')
    .option('--no-headers', 'the first line is a record, not a header')
    .addOption(new Option('--separator <what>', 'the character between cells').choices([',', ';', 'tab']))
    .addOption(
      new Option('--character-set <name>', "the file's character set").choices([
        'utf-8',
        'iso-8859-1',
        'windows-1252',
        'utf-16le',
        'utf-16be',
      ]),
    )
    .addOption(
      new Option(
        '--date-format <order>',
        'mdy if 01/02/2014 is in January, dmy if it is in February',
      ).choices(['mdy', 'dmy']),
    )
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText(
      'after',
      `
A file of up to ${maxInlineBytes / binaryMegabyte} MB is sent inline, a larger or a compressed (.gz) one by FTP. Without --watch the command
ends when the import is created. With --watch it ends with ${exitCodes.done} when the import is finished, and with ${exitCodes.failed} when it
failed or was cancelled.

Examples:
  rollcall import subscribers.csv --list 1 --watch
  rollcall import people.csv --list 1 --map 'email,First name,-' --overwrite
  rollcall import https://example.com/people.csv --list 1 --dry-run --watch --json
  cut -d, -f1 people.csv | rollcall import - --list 1`,
    )
    .action(run((file: string, options: ImportFlags) => importSource(openSession(), file, options)))

  program
    .command('imports')
    .description('list the imports, or show one')
    .addArgument(new Argument('[id]', 'an import').argParser(positiveInteger))
    .option('--watch', 'follow it to its end')
    .option('--scope <scope>', 'active, finished, recent (those of the last two weeks) or all')
    .addOption(new Option('--list <id>', 'only those of a mailing list').argParser(positiveInteger))
    .addHelpText('after', '\nExamples:\n  rollcall imports --scope active\n  rollcall imports 12 --watch')
    .action(
      run((id: number | undefined, options: { scope?: string; list?: number; watch?: true } & Json) => {
        if (id === undefined && options.watch === true)
          throw usage('--watch follows one import: add its ID, as in rollcall imports 12 --watch')
        if (id !== undefined && (options.scope !== undefined || options.list !== undefined))
          throw usage(`--scope and --list select from all imports: leave out either them or the ID ${id}`)
        return id === undefined ? listImports(openSession(), options) : showImport(openSession(), id, options)
      }),
    )
  const moves = [
    ['pause', 'pause an import: no row is written after the reply'],
    ['unpause', 'resume a paused import'],
    ['cancel', 'end an import for good; rows that are written stay'],
  ] as const
  for (const [move, description] of moves)
    program
      .command(move)
      .description(description)
      .addArgument(new Argument('<id>', 'the import').argParser(positiveInteger))
      .addHelpText('after', `\nExamples:\n  rollcall ${move} 12`)
      .action(run((id: number, options: Json) => moveImport(openSession(), move, id, options)))
  program
    .command('logs')
    .description('print a log of an import; on a terminal, control characters are escaped')
    .addArgument(new Argument('<id>', 'the import').argParser(positiveInteger))
    .argument('<kind>', `one of ${logKinds.join(', ')}`)
    .option('--safe', "put a ' before cells of failed records that a spreadsheet would run as a formula")
    .addHelpText(
      'after',
      '\nThe log of failed records is a CSV file: correct it, and import it again.\n\nExamples:\n  rollcall logs 12 failed > correct.csv\n  rollcall logs 12 failed --safe > view.csv\n  rollcall logs 12 added | head',
    )
    .action(
      run((id: number, kind: string, options: { safe?: true }) => printLog(openSession(), id, kind, options)),
    )
}

function addRecordCommands(program: Command, run: Run, openSession: () => Session, terminal: Terminal): void {
  for (const { name, description, create, list } of recordGroups) {
    const group = program.command(name).description(description)
    addRecordCommand(group, 'create', create).action(
      run(async (options: RecordOptions) => {
        const body = await create.body(options, terminal)
        return createRecord(openSession(), create.path(options), body, options)
      }),
    )
    addRecordCommand(group, 'list', list).action(
      run((options: RecordOptions) => listRecords(openSession(), list.path(options), list.columns, options)),
    )
  }
}

function addRecordCommand(
  group: Command,
  name: string,
  { description, options, examples }: RecordCommand,
): Command {
  const command = group.command(name).description(description)
  for (const option of options) command.addOption(option)
  return command.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}`).join('\n')}`)
}
