import path from 'node:path'
import { isStartedByNpm } from '../../shared/runtime/config.ts'
import { runProcess } from '../../shared/runtime/service.ts'
import { exitCodes } from './exit-codes.ts'
import { versionWithCommit } from '../../shared/runtime/package-version.ts'
import { startOwnMongoDB } from '../../shared/runtime/mongod/own-mongodb.ts'
import { createSecretsKey } from '../../shared/store/secrets.ts'
import { superviseChild } from './supervised-child.ts'
import { shellQuoted } from './terminal.ts'

const help = `Usage: npm start

Runs the whole service in the foreground: the control plane, an engine, the FTP server, and without MONGODB_URI a
database of its own, whose data are in DATA_DIR. Ctrl-C stops it.

Settings are environment variables, or lines of a file .env, such as HTTP_PORT, FTP_PORT, DATA_DIR and MONGODB_URI.
README.md has a table of all.

On a terminal it prints where everything is, else one line of JSON. Logs go to standard error.
`
const [argument] = process.argv.slice(2)
if (argument !== undefined) {
  const isHelp = argument === '--help' || argument === '-h'
  if (isHelp) process.stdout.write(help)
  else
    process.stderr.write(
      `rollcall: unknown argument ${argument}: settings are environment variables\n\n${help}`,
    )
  process.exit(isHelp ? exitCodes.done : exitCodes.wrongUsage)
}

/**
 * Runs the whole service in the foreground. The three processes are children: started in order, restarted when one
 * ends, and stopped together. So is the embedded database without `MONGODB_URI`, which is stopped last.
 */
await runProcess('start', async (process) => {
  const { settings, log, stopping } = process
  const embedded = settings.MONGODB_URI === undefined ? process.add(await startOwnMongoDB(process)) : null
  // Whatever STAGING is, these processes share DATA_DIR.
  if (embedded !== null && settings.SECRETS_KEY_FILE === undefined) await createSecretsKey(settings.DATA_DIR)
  const database = embedded === null ? {} : { MONGODB_URI: embedded.uri }
  const supervision = { log, settings: database, stopping, onHopeless: () => process.stop(exitCodes.failed) }
  const controlPlane = process.add(await superviseChild('control-plane', supervision))
  process.keepFirstKey(controlPlane.ready.api_key ?? null)
  // Waits for both, because one that can't start must not leave the other one without a supervisor.
  const starts = [superviseChild('engine', supervision), superviseChild('ftp', supervision)] as const
  for (const start of await Promise.allSettled(starts))
    if (start.status === 'fulfilled') process.add(start.value)
  const [engine, ftp] = await Promise.all(starts)
  controlPlane.tell({ ftp: ftp.ready.ftp })
  const line = {
    http: controlPlane.ready.http,
    ftp: ftp.ready.ftp,
    ...(ftp.ready.ftps === undefined ? {} : { ftps: ftp.ready.ftps }),
    metrics: { ...controlPlane.ready.metrics, ...engine.ready.metrics, ...ftp.ready.metrics },
    mongodb: controlPlane.ready.mongodb,
    mongodb_password_file: embedded?.passwordFile ?? null,
    api_key: controlPlane.ready.api_key,
  }
  process.ready(line, forPeople(line, embedded === null ? null : path.resolve(settings.DATA_DIR)))
})

interface Addresses {
  http?: string | undefined
  ftp?: string | undefined
  metrics: Record<string, string>
  mongodb: string
  api_key?: string | null | undefined
}

/**
 * What a person at a terminal needs: where everything is, the first key, and the commands to begin with. `dataFolder` is
 * that of the embedded database.
 */
function forPeople(
  { http = '', ftp = '', metrics, mongodb, api_key: key = null }: Addresses,
  dataFolder: string | null,
): string {
  // Outside of the clone npx would fetch another package of this name.
  const rollcall = isStartedByNpm() ? 'npx rollcall' : 'rollcall'
  const url = http === 'http://127.0.0.1:8080' ? '' : `  export ROLLCALL_URL=${http}\n`
  const recovery =
    dataFolder === null
      ? `run "${rollcall} recover-key" with this MONGODB_URI.`
      : `stop this service, then run: DATA_DIR=${shellQuoted(dataFolder)} ${rollcall} recover-key`
  return `
Rollcall ${versionWithCommit()} is ready. Ctrl-C stops it.

  Console  ${http}/console/, which asks for an API key
  API      ${http}/svc/api/v2, described at ${http}/docs/
  FTP      ${ftp}, user api, password: an API key
  Metrics  ${Object.values(metrics).join('  ')}
  MongoDB  ${mongodb}
${key === null ? '' : `\nThe first API key, which is shown only now: ${key}\n`}
Next, in another terminal:

${url}  export ROLLCALL_API_KEY=${key ?? 'KEY'}
  ${rollcall} list create --name News
  ${rollcall} import people.csv --list News --watch
${key === null ? `\nIf the key is lost, ${recovery}\n` : ''}`
}
