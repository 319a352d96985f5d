import { Argument, Command, Option } from 'commander'
import { roles } from '../../shared/contract/schemas/api-key.ts'
import { fieldTypes } from '../../shared/contract/schemas/custom-field.ts'
import { logKinds } from '../../shared/contract/schemas/import.ts'
import { completionScript, shells, type Shell } from './commands/completion.ts'
import { importSource, type ImportFlags } from './commands/import.ts'
import { listImports, moveImport, printLog, showImport } from './commands/imports.ts'
import { becomeProgram } from './commands/processes.ts'
import { createRecord, listRecords } from './commands/records.ts'
import { usage } from './failures.ts'
import { positiveInteger, requiredId } from './option-values.ts'
import { programs, startProgram } from './processes.ts'
import { recordGroups, type Given, type RecordCommand } from './record-groups.ts'
import type { Session } from './session.ts'
import type { Terminal } from './terminal.ts'

/** What the command line runs in. */
export interface Context {
  terminal: Terminal
  /** Opened by the commands that talk to the service. */
  openSession: () => Session
  /** Is told each command's exit code. */
  onEnd: (exitCode: number) => void
}

type Json = { json?: true }

/** The tree of commands: what each takes, its help, and what it calls. */
export function buildProgram({ terminal, openSession, onEnd }: Context): Command {
  const program = new Command('rollcall')
    .description('Imports subscribers, and runs the service that does it.')
    .option('--json', "print the bare data of the service's reply as JSON")
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
    .showHelpAfterError('(--help tells what there is)')
    .exitOverride()
    .helpCommand('help [command]', 'tell what a command does')
    .addHelpText(
      'after',
      `
Settings, from the environment or a file .env in the working folder:
  ROLLCALL_URL      where the service is (http://127.0.0.1:8080)
  ROLLCALL_API_KEY  the API key
  ROLLCALL_FTP      where large files are uploaded (port 2121 of the service's host)

Exit codes: 0 done, 1 the service refused or failed, 2 wrong usage,
  3 with --watch: every row failed.

Examples:
  rollcall start
  rollcall list create --name News
  rollcall import subscribers.csv --list 1 --watch`,
    )

  /** A command's action, with its options, those of all commands included. */
  const run: Run =
    (act) =>
    async (...args) => {
      const command = args.at(-1) as Command
      const own = [...args.slice(0, -2), command.optsWithGlobals()] as never[]
      onEnd(await act(...own))
    }

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
        return 0
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
        return 0
      }),
    )
  return program
}

/** What is proposed where the service, not the command line, knows what is right. */
const knownValues: Record<string, readonly string[]> = {
  kind: logKinds,
  '--type': fieldTypes,
  '--role': roles,
  '--scope': ['active', 'finished', 'recent', 'all'],
}

/** Makes an action of a function that takes a command's arguments and then its options. */
type Run = (act: (...args: never[]) => Promise<number>) => (...args: unknown[]) => Promise<void>

function addImportCommands(program: Command, run: Run, openSession: () => Session): void {
  program
    .command('import')
    .summary('import a file or a URL')
    .description(
      'Import a file (- is standard input) or a URL into a mailing list. Which column is which is guessed, shown, and on a terminal asked.',
    )
    .argument('<file>', 'the file, or the URL')
    .addOption(requiredId('--list <id>', 'the mailing list'))
    .option('--map <names>', 'the columns: email, built-in columns, custom fields; - ignores one')
    .option('--overwrite', 'overwrite subscribers who are there already')
    .option('--dry-run', 'do everything but the writes')
    .option('--watch', 'follow the import to its end')
    .addOption(new Option('--via <way>', 'how the file goes').choices(['inline', 'ftp']))
    .option('--begins-at <time>', 'when it begins, by default now')
    .option('--no-headers', 'the first line is a record')
    .addOption(new Option('--separator <what>', 'what stands between cells').choices([',', ';', 'tab']))
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
      new Option('--date-format <order>', 'whether 01/02/2014 is in January').choices(['mdy', 'dmy']),
    )
    .option('-y, --yes', 'do not ask')
    .addHelpText(
      'after',
      `
A file up to 10 MB goes inline, a larger or a packed (.gz) one by FTP. Without --watch the command ends when the import
is created; with it, it ends with 0 when the import is finished, and with 1 when it failed or was cancelled.

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
          throw usage('--watch follows one import: say its ID, as in rollcall imports 12 --watch')
        if (id !== undefined && (options.scope !== undefined || options.list !== undefined))
          throw usage(`--scope and --list choose from all imports: leave them out, or the ID ${id}`)
        return id === undefined ? listImports(openSession(), options) : showImport(openSession(), id, options)
      }),
    )
  const moves = {
    pause: 'pause an import: no row is written after the answer',
    unpause: 'let a paused import go on',
    cancel: 'end an import for good; rows that are written stay',
  } as const
  for (const [move, description] of Object.entries(moves) as [keyof typeof moves, string][])
    program
      .command(move)
      .description(description)
      .addArgument(new Argument('<id>', 'the import').argParser(positiveInteger))
      .addHelpText('after', `\nExamples:\n  rollcall ${move} 12`)
      .action(run((id: number, options: Json) => moveImport(openSession(), move, id, options)))
  program
    .command('logs')
    .description('print a log of an import, as it comes; on a terminal, with its control characters spelled')
    .addArgument(new Argument('<id>', 'the import').argParser(positiveInteger))
    .argument('<kind>', `one of ${logKinds.join(', ')}`)
    .option('--safe', "put a ' before cells of failed records that a spreadsheet would run as a formula")
    .addHelpText(
      'after',
      '\nThe log of failed records is a CSV file: mended, it imports again.\n\nExamples:\n  rollcall logs 12 failed > mend.csv\n  rollcall logs 12 failed --safe > look.csv\n  rollcall logs 12 added | head',
    )
    .action(
      run((id: number, kind: string, options: { safe?: true }) => printLog(openSession(), id, kind, options)),
    )
}

function addRecordCommands(program: Command, run: Run, openSession: () => Session, terminal: Terminal): void {
  for (const { name, description, create, list } of recordGroups) {
    const group = program.command(name).description(description)
    addRecordCommand(group, 'create', create).action(
      run(async (given: Given) => {
        const body = await create.body(given, terminal)
        return createRecord(openSession(), create.path(given), body, given)
      }),
    )
    addRecordCommand(group, 'list', list).action(
      run((given: Given) => listRecords(openSession(), list.path(given), list.columns, given)),
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
