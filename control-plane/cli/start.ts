import { runProcess } from '../../shared/runtime/service.ts'
import { exitCodes } from './exit-codes.ts'
import { startOwnMongoDB } from '../../shared/runtime/start-database.ts'
import { createSecretsKey } from '../../shared/store/secrets.ts'
import { superviseChild } from './supervised-child.ts'

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
  process.ready({
    http: controlPlane.ready.http,
    ftp: ftp.ready.ftp,
    ...(ftp.ready.ftps === undefined ? {} : { ftps: ftp.ready.ftps }),
    metrics: { ...controlPlane.ready.metrics, ...engine.ready.metrics, ...ftp.ready.metrics },
    mongodb: controlPlane.ready.mongodb,
    mongodb_password_file: embedded?.passwordFile ?? null,
    api_key: controlPlane.ready.api_key,
  })
})
