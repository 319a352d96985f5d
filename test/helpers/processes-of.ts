import { readdir, readFile } from 'node:fs/promises'

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
