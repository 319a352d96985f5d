import { readdir, readFile } from 'node:fs/promises'
import { until } from './service.ts'

/** Other processes whose environment or arguments contain the data folder. */
export async function processesOf(dataFolder: string): Promise<string[]> {
  const found: string[] = []
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const [environment = '', command = ''] = await Promise.all(
      ['environ', 'cmdline'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
    )
    if (Number(pid) !== process.pid && `${environment}${command}`.includes(dataFolder))
      found.push(`${pid} ${command.replaceAll('\0', ' ').slice(0, 100)}`)
  }
  return found
}

/**
 * Throws where one of them runs. The `sleep` of the script that watches the embedded server is killed with it, and may be
 * seen for another moment.
 */
export async function untilNoProcessOf(dataFolder: string): Promise<void> {
  const running = (await processesOf(dataFolder)).filter((process) => !/^\d+ (\S*\/)?sleep /.test(process))
  if (running.length > 0) throw new Error(`left running: ${running.join('; ')}`)
  await until(
    `the end of all processes of ${dataFolder}`,
    () => processesOf(dataFolder),
    ({ length }) => length === 0,
    5_000,
  )
}
