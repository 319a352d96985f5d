import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Runs the campaigns at full size, one after the other: the commands in the table of docs/campaigns.md, which
 * describes each. Arguments choose those whose test files have one of them in their names. Exits with 1 when one of
 * them failed.
 */
const page = readFileSync(new URL('../docs/campaigns.md', import.meta.url), 'utf8')
const commands = [...page.matchAll(/^\| .* \| `(.* npm run tap -- .*)` \|$/gm)].map(([, command]) => command!)

const filesOf = (command: string): string => command.slice(command.indexOf(' test/'))
const wanted = process.argv.slice(2)
const chosen = commands.filter(
  (command) => wanted.length === 0 || wanted.some((name) => filesOf(command).includes(name)),
)
const failed = chosen.filter((command) => {
  console.log(command)
  return spawnSync('sh', ['-c', command], { stdio: 'inherit' }).status !== 0
})
if (chosen.length === 0) console.log(`no campaign has ${wanted.join(' or ')} in its name`)
for (const command of failed) console.log(`failed: ${command}`)
process.exit(failed.length === 0 && chosen.length > 0 ? 0 : 1)
