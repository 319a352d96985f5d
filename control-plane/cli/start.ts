import { runProcess } from '../../shared/runtime/service.ts'
import { superviseChild } from './supervised-child.ts'

/**
 * The whole service in the foreground: the three processes as children, started in order, restarted when one breaks
 * off, stopped together. They share an embedded database, if there is one, as they would on their own.
 */
await runProcess('start', async (process) => {
  const { log } = process
  const broken = () => process.stop(1)
  const controlPlane = process.add(await superviseChild('control-plane', log, broken))
  // Both to their end: one that can't start must not leave the other one to nobody.
  const starts = [superviseChild('engine', log, broken), superviseChild('ftp', log, broken)] as const
  for (const start of await Promise.allSettled(starts))
    if (start.status === 'fulfilled') process.add(start.value)
  const [engine, ftp] = await Promise.all(starts)
  process.ready({
    http: controlPlane.ready.http,
    ftp: ftp.ready.ftp,
    ...(ftp.ready.ftps === undefined ? {} : { ftps: ftp.ready.ftps }),
    metrics: { ...controlPlane.ready.metrics, ...engine.ready.metrics, ...ftp.ready.metrics },
    mongodb: controlPlane.ready.mongodb,
    mongodb_password_file: controlPlane.ready.mongodb_password_file,
    api_key: controlPlane.ready.api_key,
  })
})
