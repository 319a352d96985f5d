import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = 'docs/contributing'

t.test('the commits that contributors are shown can be made, and are all shown', async (t) => {
  const page = await readFile(path.join(root, 'docs/contributing.md'), 'utf8')
  const patches = (await readdir(path.join(root, folder))).filter((name) => name.endsWith('.patch'))
  t.ok(patches.length > 0)
  for (const patch of patches) {
    t.match(page, `(contributing/${patch})`)
    const applied = promisify(execFile)('git', ['apply', '--check', `${folder}/${patch}`], { cwd: root })
    await t.resolves(applied, `${patch} applies`)
  }
})
