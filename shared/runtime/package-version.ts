import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const packageFile = z.object({ version: z.string() })
const root = path.resolve(import.meta.dirname, '../..')

/** The version of this tree, as package.json has it. */
export const packageVersion = (): string =>
  packageFile.parse(JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))).version

let commit: string | null | undefined

/** The short name of the commit that was checked out when it was first asked for; null without a checkout or git. */
export const currentCommit = (): string | null => (commit === undefined ? (commit = readCommit()) : commit)

function readCommit(): string | null {
  if (!existsSync(path.join(root, '.git'))) return null
  try {
    const args = ['-C', root, 'rev-parse', '--short', 'HEAD']
    return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return null
  }
}

/** `1.0.0`, or `1.0.0 (1a2b3c4)` where the commit is known. */
export function versionWithCommit(): string {
  const name = currentCommit()
  return name === null ? packageVersion() : `${packageVersion()} (${name})`
}
