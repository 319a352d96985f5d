import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { programSearchPath } from '../../shared/runtime/config.ts'

/** Where build-mongoimport.sh puts it. */
const built = fileURLToPath(
  new URL('../../node_modules/.cache/rollcall/mongoimport/mongoimport', import.meta.url),
)

/** `MONGOIMPORT_BINARY`, or one on the PATH, or the one that was built; null where there is none. */
export async function findMongoimport(): Promise<string | null> {
  const named = process.env['MONGOIMPORT_BINARY'] ?? ''
  if (named !== '') {
    if (await canRun(named)) return named
    throw new Error(`MONGOIMPORT_BINARY is ${named}, which isn't a program that can be run`)
  }
  const onPath = programSearchPath()
    .split(path.delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => path.join(folder, 'mongoimport'))
  for (const candidate of [...onPath, built]) if (await canRun(candidate)) return candidate
  return null
}

const canRun = (file: string): Promise<boolean> =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
