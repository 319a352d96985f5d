import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { programSearchPath } from '../../shared/runtime/config.ts'

export const searchPath = (): string =>
  [path.dirname(process.execPath), programSearchPath()].join(path.delimiter)

/** Programs of which one isn't there, as the reason why a test is skipped; false when all are. */
export function missing(...programs: string[]): string | false {
  const absent = programs.filter(
    (program) =>
      spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH: searchPath() } }).status !== 0,
  )
  return absent.length > 0 && `${absent.join(' and ')} not installed`
}
