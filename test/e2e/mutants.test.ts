import { spawnSync } from 'node:child_process'
import { glob, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { rooms, type Room } from '../campaigns/mutants/rooms.ts'
import { missing, searchPath } from '../helpers/missing-programs.ts'

/**
 * StrykerJS makes every mutation of pure code that it knows, room by room, and runs the unit tests that reach it. It is
 * installed for the run, so this campaign runs by hand: ROLLCALL_MUTANTS=all, or the name of a room. As a development
 * dependency its 180 packages (60 MB) would double the time of `npm ci`.
 */
const wanted = process.env['ROLLCALL_MUTANTS']
const version = '10.0.0'
/** Of 100 mutants. Nearly all others are short ways, whose long way has the same result. */
const minSeen = 90
const root = fileURLToPath(new URL('../..', import.meta.url))
/** As .taprc says, and random cases that are the same for every mutant. */
const preloaded = ['./test/helpers/strict-comparisons.ts', './test/campaigns/mutants/fixed-cases.ts']

t.test('what is mutated is there, and so are its tests', async (t) => {
  for (const [name, { files, tests }] of Object.entries(rooms))
    for (const pattern of [...files, ...tests])
      t.not((await Array.fromAsync(glob(pattern, { cwd: root }))).length, 0, `${name}: ${pattern}`)
})

const chosen = Object.entries(rooms).filter(([name]) => wanted === 'all' || wanted === name)
t.ok(wanted === undefined || chosen.length > 0, `a room is called ${wanted}`)

const skip = wanted === undefined ? 'ROLLCALL_MUTANTS is not set' : missing('npm')
t.test('tests see enough of the mutants of each room', { skip, timeout: 36_000_000 }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-mutants-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const packages = ['core', 'tap-runner'].map((name) => `@stryker-mutator/${name}@${version}`)
  const options = ['--no-save', '--no-package-lock', '--ignore-scripts']
  const { status, output } = run('npm', ['install', '--prefix', folder, ...options, ...packages])
  t.equal(status, 0, output)
  for (const [name, room] of chosen) {
    const settings = path.join(folder, `${name}.json`)
    await writeFile(settings, JSON.stringify(settingsOf(room, folder)))
    const program = path.join(folder, 'node_modules/@stryker-mutator/core/bin/stryker.js')
    const end = run(process.execPath, [program, 'run', settings])
    t.comment(end.output)
    t.equal(end.status, 0, `${name}: at least ${minSeen} of 100 mutants are seen`)
  }
})

const settingsOf = ({ files, tests }: Room, folder: string) => ({
  mutate: files,
  testRunner: 'tap',
  plugins: [path.join(folder, 'node_modules/@stryker-mutator/tap-runner/dist/src/index.js')],
  tap: { testFiles: tests, nodeArgs: preloaded.flatMap((file) => ['--import', file]) },
  coverageAnalysis: 'perTest',
  concurrency: 2,
  // Endless loops end earlier: StrykerJS counts how many times a mutant is reached.
  timeoutMS: 60_000,
  // StrykerJS would write it anew with the compiler, which it doesn't find.
  ignorePatterns: ['tsconfig.json'],
  // The survivors, and the score of each file.
  reporters: ['clear-text'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  thresholds: { high: 100, low: minSeen, break: minSeen },
  tempDirName: path.join(folder, 'copy'),
})

/** Settings of this process for its own run, such as tap's, are kept from the tests of a mutant. */
const ownSettings = /^(?:TAP|_TAPJS|NODE_OPTIONS|ROLLCALL_)/

/** Runs a program to its end, with this process's node and a low priority. */
function run(program: string, args: readonly string[]): { status: number | null; output: string } {
  const environment = Object.entries(process.env).filter(([name]) => !ownSettings.test(name))
  const { status, stdout, stderr } = spawnSync('nice', ['-n', '10', program, ...args], {
    cwd: root,
    env: {
      ...Object.fromEntries(environment),
      PATH: searchPath(),
      NODE_COMPILE_CACHE: path.join(root, 'node_modules/.cache/rollcall'),
    },
    encoding: 'utf8',
  })
  return { status, output: `${stdout}${stderr}` }
}
