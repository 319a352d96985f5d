import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { PlantedFault, TestRun } from '../campaigns/planted-faults/planted-fault.ts'
import { pairsMatching, type How } from '../campaigns/interleavings/sweep.ts'
import { protocolFaults } from '../campaigns/planted-faults/protocol.ts'

/**
 * Realistic faults in the protocol, which mutants can't make, are planted one at a time in a copy of the tree, and the
 * tests that belong to the code must notice. A fault with which they pass has survived. The same tests run without the
 * fault first: where they fail then, the fault isn't judged. ROLLCALL_FAULTS=all plants all faults; other text plants
 * those that have it in their names. Without the setting the faults are only looked up, so that their texts stay true.
 */
const wanted = process.env['ROLLCALL_FAULTS']
/** At least this share must be noticed. */
const minSeenShare = 0.9
const root = fileURLToPath(new URL('../..', import.meta.url))

t.test('each fault can be planted: its text stands once in its file, and its tests are there', async (t) => {
  const problems: string[] = []
  for (const { name, file, text, replacement, tests } of protocolFaults) {
    const source = await readFile(path.join(root, file), 'utf8')
    const times = source.split(text).length - 1
    if (times !== 1) problems.push(`${name}: its text stands ${times} times in ${file}`)
    if (text === replacement) problems.push(`${name}: it changes nothing`)
    for (const test of tests.flatMap(({ files }) => files))
      await readFile(path.join(root, test)).catch(() => problems.push(`${name}: there is no ${test}`))
    for (const { settings } of tests) {
      const titles = settings?.['ROLLCALL_INTERLEAVINGS']
      if (titles !== undefined && !matchesInterleavings(titles))
        problems.push(`${name}: no interleaving is called ${titles}`)
    }
  }
  t.same(problems, [])
})

t.test('the example of docs/campaigns.md matches interleavings', async (t) => {
  const page = await readFile(path.join(root, 'docs/campaigns.md'), 'utf8')
  const [, example] = /ROLLCALL_INTERLEAVINGS='([^']*)'/.exec(page) ?? []
  t.ok(example !== undefined && matchesInterleavings(example), 'it does')
})

const hows: readonly How[] = ['hold', 'cut', 'step down']
function matchesInterleavings(titles: string): boolean {
  return pairsMatching(new RegExp(titles), hows).length > 0
}

const chosen = protocolFaults.filter(
  ({ name }) => wanted !== undefined && (wanted === 'all' || name.includes(wanted)),
)
t.ok(wanted === undefined || chosen.length > 0, `a fault is called ${wanted}`)

const skip = wanted === undefined && 'ROLLCALL_FAULTS is not set'
t.test('the tests notice faults of the protocol', { skip, timeout: 36_000_000 }, async (t) => {
  const copy = await copyOfTree()
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  const failing = new Set(
    [...new Set(chosen.flatMap(({ tests }) => tests))].filter((run) => !passes(copy, run)),
  )
  for (const { files, settings } of failing)
    t.fail(`${files.join(' ')} ${JSON.stringify(settings ?? {})} fails without a fault`)
  const judged = chosen.filter(({ tests }) => !tests.some((run) => failing.has(run)))
  const survivors: string[] = []
  for (const fault of judged) {
    const seenBy = await seeingTests(copy, fault)
    if (seenBy === null) survivors.push(fault.name)
    t.comment(seenBy === null ? `SURVIVED: ${fault.name}` : `seen by ${seenBy}: ${fault.name}`)
  }
  for (const fault of chosen) if (!judged.includes(fault)) t.comment(`NOT JUDGED: ${fault.name}`)
  const seen = judged.length - survivors.length
  t.ok(
    seen >= minSeenShare * judged.length,
    `${seen} of ${judged.length} faults were seen, ${chosen.length - judged.length} weren't judged; these survived: ${survivors.join('; ')}`,
  )
})

/** Generated files are not copied. */
async function copyOfTree(): Promise<string> {
  const copy = await mkdtemp(path.join(tmpdir(), 'rollcall-faults-'))
  const left = ['node_modules', '.git', '.tap', 'data']
  await cp(root, copy, { recursive: true, filter: (source) => !left.includes(path.relative(root, source)) })
  await symlink(path.join(root, 'node_modules'), path.join(copy, 'node_modules'))
  return copy
}

/** Plants the fault, runs its tests until one fails, and takes it back. Resolves to the file that failed. */
async function seeingTests(
  copy: string,
  { file, text, replacement, tests }: PlantedFault,
): Promise<string | null> {
  const place = path.join(copy, file)
  const source = await readFile(place, 'utf8')
  await writeFile(
    place,
    source.replace(text, () => replacement),
  )
  try {
    return tests.find((run) => !passes(copy, run))?.files.join(' ') ?? null
  } finally {
    await writeFile(place, source)
  }
}

function passes(copy: string, { files, settings }: TestRun): boolean {
  const { PATH, HOME, MONGOD_BINARY, MONGOD_CACHE_DIR } = process.env
  // Without the settings of this process's own run.
  const env = { PATH, HOME, MONGOD_BINARY, MONGOD_CACHE_DIR, ...settings }
  const args = ['test/run.ts', '--jobs=1', '--bail', ...files]
  return spawnSync(process.execPath, args, { cwd: copy, env, stdio: 'ignore' }).status === 0
}
