import { Argument, Command, Option } from 'commander'
import { auditActions, auditedRecords } from '../../shared/contract/schemas/audit-event.ts'
import { roles } from '../../shared/contract/schemas/api-key.ts'
import { fieldTypes } from '../../shared/contract/schemas/custom-field.ts'
import { characterSets, logKinds } from '../../shared/contract/schemas/import.ts'
import { versionWithCommit } from '../../shared/runtime/package-version.ts'
import { binaryMegabyte } from '../../shared/values/byte-sizes.ts'
import { listAuditEvents, showWhoami, type AuditFlags } from './commands/audit.ts'
import { completionScript, shells, type Shell } from './commands/completion.ts'
import { importSource } from './commands/import.ts'
import { listImports, moveImport, printLog, showImport } from './commands/imports.ts'
import { createRecord, deleteRecord, listRecords } from './commands/records.ts'
import { maxInlineBytes } from './commands/send-file.ts'
import { listSubscribers, showCounts, showSubscribers } from './commands/subscribers.ts'
import { listUploads, putFile, removeFile } from './commands/uploads.ts'
import { exitCodes } from './exit-codes.ts'
import { usage } from './failures.ts'
import { addImportOptions, failOnOption, requireWatch, type ImportFlags } from './import-options.ts'
import { findList } from './mailing-list.ts'
import { listName, listOption, positiveInteger } from './option-values.ts'
import { becomeProgram, programs, startProgram } from './processes.ts'
import { recordGroups, type RecordCommand, type RecordOptions } from './record-groups.ts'
import type { Session } from './session.ts'
import { terminalWidth, wrapTo, type Terminal } from './terminal.ts'

/** What the commands need from the process. */
interface Context {
  terminal: Terminal
  /** Called by the commands that talk to the service. */
  openSession: () => Session
  /** Called with each command's exit code. */
  onEnd: (exitCode: number) => void
}

type Json = { json?: true }
type ImportsFlags = { scope?: string; state?: string; list?: string; watch?: true; failOn?: number } & Json

/** Builds the tree of commands, with their arguments, help and actions. */
export function buildProgram({ terminal, openSession, onEnd }: Context): Command {
  const program = new Command('rollcall')
    .description('Import subscribers, and run the service that does it.')
    .version(versionWithCommit(), '--version', "print the command line's version")
    .option('--json', "print the data of the service's reply as JSON")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => terminal.out.write(wrapTo(text, terminalWidth(terminal.out))),
      writeErr: (text) => terminal.err.write(wrapTo(text, terminalWidth(terminal.err))),
      getOutHasColors: () => terminal.hasColours && terminal.out.isTTY,
      getErrHasColors: () => terminal.hasColours && terminal.err.isTTY,
      outputError: (text, write) => write(text.replace(/^error: /, 'rollcall: ')),
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
  ROLLCALL_FTP      where --via ftp uploads files (port 2121 of the service's host)

Exit codes: ${exitCodes.done} done, ${exitCodes.failed} the service refused or failed, ${exitCodes.wrongUsage} wrong usage;
  with --watch ${exitCodes.done} finished, ${exitCodes.failed} failed or cancelled,
  ${exitCodes.rowsFailed} finished, but every row failed, or more than --fail-on allows.

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
      onEnd((await act(...args)) ?? exitCodes.done)

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
      "\nIt takes the database's settings (MONGODB_URI, or DATA_DIR of a service that is stopped), no API key.\n\nExamples:\n  rollcall recover-key\n  export ROLLCALL_API_KEY=$(rollcall recover-key)",
    )
    .action(
      run(async ({ json }: Json) => {
        // The database's driver is loaded for this command alone.
        const { makeRecoveredKey } = await import('./commands/recover-key.ts')
        const key = await makeRecoveredKey()
        terminal.out.write(`${json === true ? JSON.stringify({ key }) : key}\n`)
      }),
    )

  addImportCommands(program, run, openSession)
  addRecordCommands(program, run, openSession, terminal)
  addSubscriberCommands(program, run, openSession)
  addUploadCommands(program, run, openSession)
  addAuditCommands(program, run, openSession)

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
  '--character-set': [...characterSets, 'auto'],
  '--separator': ['auto', 'tab'],
  '--enclosure': ['double', 'single'],
  '--action': auditActions,
  '--record': auditedRecords,
}

/**
 * Makes a command's action of a function that takes its arguments and then its options. The function may resolve to an
 * exit code.
 */
type Run = <Args extends unknown[]>(
  act: (...args: Args) => Promise<number> | Promise<void>,
) => (...args: Args) => Promise<void>

function addImportCommands(program: Command, run: Run, openSession: () => Session): void {
  const command = program
    .command('import')
    .summary('import a file or a URL')
    .description(
      'Import a file (- is standard input, people.zip:NAME a file in a zip) or a URL into a mailing list. The meaning of each column is guessed and shown; on a terminal you are asked to confirm it.',
    )
    .argument('<file>', 'the file, or the URL')
  addImportOptions(command)
    .addHelpText(
      'after',
      `
UTF-8 text of up to ${maxInlineBytes / binaryMegabyte} MiB is sent inline, everything else as it is over HTTP, or by FTP with --via ftp.
If that is interrupted, the same command resumes it.

--map 'email,First name,-' is the whole mapping, in the order of the columns. --map '2=First name,3=-'
changes columns 2 and 3 of the guess. A name with a comma or = is enclosed in ".

Exit codes: without --watch ${exitCodes.done} when the import is created. With --watch ${exitCodes.done} when it is finished, ${exitCodes.failed} when it
failed or was cancelled, ${exitCodes.rowsFailed} when it finished and every row failed, or more than --fail-on PERCENT.
${exitCodes.failed} also when the service refused it, ${exitCodes.wrongUsage} for wrong usage, such as a wrong --map.

Examples:
  rollcall import subscribers.csv --list News --watch
  rollcall import people.csv --list 1 --map 'email,First name,-' --overwrite
  rollcall import people.csv --list 1 --create-fields --watch --fail-on 5
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
    .option('--state <states>', 'only those in one of these states, separated by commas')
    .addOption(listOption('--list <list>', 'only those of a mailing list, by id or name'))
    .addOption(failOnOption())
    .addHelpText(
      'after',
      '\nExamples:\n  rollcall imports --scope active\n  rollcall imports --scope all --state failed,cancelled\n  rollcall imports 12 --watch',
    )
    .action(
      run((id: number | undefined, options: ImportsFlags) => {
        if (id === undefined && options.watch === true)
          throw usage('--watch follows one import: add its ID, as in rollcall imports 12 --watch')
        if (id !== undefined && (options.scope ?? options.state ?? options.list) !== undefined)
          throw usage(
            `--scope, --state and --list select from all imports: leave out either them or the ID ${id}`,
          )
        requireWatch(options)
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
  for (const { name, description, create, list, delete: removal } of recordGroups) {
    const group = program.command(name).description(description)
    addRecordCommand(group, 'create', create).action(
      run(async (options: RecordOptions) => {
        const body = await create.body(options, terminal)
        const session = openSession()
        const path = create.path(await withListId(session, options))
        return createRecord(session, path, body, { ...options, show: create.show })
      }),
    )
    addRecordCommand(group, 'list', list).action(
      run(async (options: RecordOptions) => {
        const session = openSession()
        return listRecords(session, list.path(await withListId(session, options)), list.columns, options)
      }),
    )
    if (removal === undefined) continue
    addRecordCommand(group, 'delete', removal)
      .argument(`<${name}>`, 'its id or name')
      .action(
        run(async (record: string, options: RecordOptions) => {
          const session = openSession()
          const path = removal.path(await withListId(session, options))
          return deleteRecord(session, path, record, { ...options, question: removal.question(record) })
        }),
      )
  }
}

async function withListId({ client }: Session, options: RecordOptions): Promise<RecordOptions> {
  if (options.list === undefined) return options
  return { ...options, list: String((await findList(client, options.list)).id) }
}

function addSubscriberCommands(program: Command, run: Run, openSession: () => Session): void {
  program
    .command('subscribers')
    .description('list the subscribers of a mailing list, or show those with an email')
    .addArgument(new Argument('<list>', 'the mailing list, by id or name').argParser(listName))
    .argument('[email]', 'an email address; exit code 1 if no subscriber has it')
    .addHelpText(
      'after',
      '\nExamples:\n  rollcall subscribers News\n  rollcall subscribers 1 ann@example.com\n  rollcall subscribers 1 --json > subscribers.json',
    )
    .action(
      run((list: string, email: string | undefined, options: Json) =>
        email === undefined
          ? listSubscribers(openSession(), list, options)
          : showSubscribers(openSession(), list, email, options),
      ),
    )
  program
    .command('counts')
    .description('count subscribers by status, in all and on each mailing list')
    .addOption(new Option('--org <id>', 'the organization, for system admins').argParser(positiveInteger))
    .addHelpText('after', '\nExamples:\n  rollcall counts\n  rollcall counts --json')
    .action(run((options: { org?: number } & Json) => showCounts(openSession(), options)))
}

function addUploadCommands(program: Command, run: Run, openSession: () => Session): void {
  const uploads = program
    .command('uploads')
    .description('list, send and remove files of the upload directory')
  uploads
    .command('list')
    .description('list the files')
    .addHelpText('after', '\nExamples:\n  rollcall uploads list')
    .action(run((options: Json) => listUploads(openSession(), options)))
  uploads
    .command('put')
    .description('send a file as it is (- is standard input)')
    .argument('<file>', 'the file')
    .argument('[name]', 'its name in the upload directory, by default its own')
    .addHelpText(
      'after',
      '\nExamples:\n  rollcall uploads put people.csv\n  zcat people.csv.gz | rollcall uploads put - people.csv',
    )
    .action(
      run((file: string, name: string | undefined, options: Json) =>
        putFile(openSession(), file, name, options),
      ),
    )
  uploads
    .command('rm')
    .description('remove a file, finished or not')
    .argument('<name>', 'its name in the upload directory')
    .addHelpText('after', '\nExamples:\n  rollcall uploads rm people.csv')
    .action(run((name: string, options: Json) => removeFile(openSession(), name, options)))
}

function addAuditCommands(program: Command, run: Run, openSession: () => Session): void {
  program
    .command('audit')
    .description(
      'list who changed what, newest first: imports, lists, fields, API keys, users, organizations',
    )
    .option('--action <actions>', `only these, comma-separated: ${auditActions.join(', ')}`)
    .option('--record <types>', `only these records, comma-separated: ${auditedRecords.join(', ')}`)
    .addOption(new Option('--id <id>', 'only the record with this id').argParser(positiveInteger))
    .addOption(new Option('--key <id>', 'only what this API key did').argParser(positiveInteger))
    .option('--since <time>', 'only from this time on, such as 2026-01-31T08:00')
    .option('--until <time>', 'only before this time')
    .addOption(new Option('--org <id>', 'the organization, for system admins').argParser(positiveInteger))
    .addOption(new Option('--limit <events>', 'how many at most').argParser(positiveInteger).default(100))
    .addHelpText(
      'after',
      '\nFiles and subscribers are not told here; the log of the service tells of files.\n\nExamples:\n  rollcall audit\n  rollcall audit --record subscriber_import --id 41\n  rollcall audit --action deleted --since 2026-01-31T08:00 --json',
    )
    .action(run((options: AuditFlags) => listAuditEvents(openSession(), options)))
  program
    .command('whoami')
    .description('show whose API key this is, and what it may do')
    .addHelpText('after', '\nExamples:\n  rollcall whoami\n  rollcall whoami --json')
    .action(run((options: Json) => showWhoami(openSession(), options)))
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
