import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Loaded into an engine before anything else (`node --import`). A second name of a file that ends with `.hung` is not
 * made before `<file>.go` exists, as on a file server that doesn't answer for one file.
 */
const { link } = fs
fs.link = async (from, to) => {
  const name = from instanceof Buffer ? from.toString() : String(from)
  while (name.endsWith('.hung') && !existsSync(`${name}.go`)) await sleep(50)
  return link(from, to)
}
syncBuiltinESMExports()
