import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFile(path.join(root, file), 'utf8')
const folder = 'docs/contributing'
const patches = (await readdir(path.join(root, folder))).filter((name) => name.endsWith('.patch'))

t.test('the commits that contributors are shown can be made, and are all shown', async (t) => {
  const page = await read('docs/contributing.md')
  t.ok(patches.length > 0)
  for (const patch of patches) {
    t.ok(page.includes(`(contributing/${patch})`))
    succeeds(t, root, 'git', 'apply', '--check', `${folder}/${patch}`)
  }
})

t.test('each size that a campaign accepts stands on a page, and the page names existing files', async (t) => {
  const page = await read('docs/campaigns.md')
  for (const [file] of page.matchAll(/test\/[\w/-]+\.test\.ts/g)) await t.resolves(read(file), file)
  // The settings of compose.test.ts are documented with its image.
  const pages = page + (await read('docs/operating.md'))
  for (const name of await readdir(path.join(root, 'test'), { recursive: true })) {
    if (!name.endsWith('.ts')) continue
    const text = await read(path.join('test', name))
    for (const [, size] of text.matchAll(/(?:process\.env\[|(?:number|setting)\()'(ROLLCALL_(?!TEST_)\w+)'/g))
      t.match(pages, new RegExp(`\\b${size}\\b`), `${size} of ${name}`)
  }
})

/** Test files and folders, with commas between them, that the tree with a patch made has to pass. */
const patchedTests = process.env['ROLLCALL_PATCHED_TESTS']
const skip = patchedTests === undefined ? 'ROLLCALL_PATCHED_TESTS is not set' : false

for (const patch of patches)
  t.test(`${patch} leaves the tree as sound as it was`, { skip, timeout: 3_600_000 }, async (t) => {
    const copy = await mkdtemp(path.join(tmpdir(), 'rollcall-patched-'))
    t.teardown(() => rm(copy, { recursive: true, force: true }))
    // Generated files aren't needed, and this test would fail in the copy, as no patch applies a second time.
    const left = ['node_modules', '.git', '.tap', 'data', 'test/unit/contributing.test.ts']
    const filter = (source: string) => !left.includes(path.relative(root, source))
    await cp(root, copy, { recursive: true, filter })
    await symlink(path.join(root, 'node_modules'), path.join(copy, 'node_modules'))
    // This is a repository of its own, as git would otherwise use one above the folder of temporary files.
    succeeds(t, copy, 'git', 'init', '--quiet')
    succeeds(t, copy, 'git', 'apply', `${folder}/${patch}`)
    succeeds(t, copy, 'npm', 'run', 'types')
    succeeds(t, copy, 'npm', 'run', 'lint')
    succeeds(t, copy, 'npm', 'run', 'tap', '--', ...patchedTests!.split(','))
  })

function succeeds(t: Test, cwd: string, program: string, ...args: string[]): void {
  const { PATH, HOME, MONGOD_BINARY, MONGOD_CACHE_DIR } = process.env
  // Without the settings of this process's own run.
  const env = { PATH, HOME, MONGOD_BINARY, MONGOD_CACHE_DIR }
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, env, encoding: 'utf8', maxBuffer: 1e9 })
  const said = status === 0 ? '' : `\n${`${stdout}${stderr}`.slice(-8_000)}`
  t.equal(status, 0, `${program} ${args.join(' ')}${said}`)
}
