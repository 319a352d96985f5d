import { spawnSync } from 'node:child_process'
import { glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { explainedMutants } from '../campaigns/mutants/explained.ts'
import { rooms, type Room } from '../campaigns/mutants/rooms.ts'
import { missing, searchPath } from '../helpers/missing-programs.ts'

/**
 * StrykerJS makes every mutation of pure code that it knows, folder by folder, and runs the unit tests that reach it.
 * The test lists mutants that survive, without those that test/campaigns/mutants/explained.ts explains. StrykerJS is
 * installed for the run, so this campaign runs by hand: ROLLCALL_MUTANTS=all, or the name of a folder. As a development
 * dependency its 180 packages (60 MB) would double the time of `npm ci`. Explanations name texts: a comment
 * `// Stryker disable` hides every later mutant of its line too, and line numbers move.
 */
const wanted = process.env['ROLLCALL_MUTANTS']
const version = '10.0.0'
const minSeenShare = 0.95
const root = fileURLToPath(new URL('../..', import.meta.url))

t.test(
  'what is mutated is there, and explanations are of texts that stand once in their files',
  async (t) => {
    const problems: string[] = []
    for (const [name, { files, tests }] of Object.entries(rooms))
      for (const pattern of [...files, ...tests])
        if ((await Array.fromAsync(glob(pattern, { cwd: root }))).length === 0)
          problems.push(`${name}: there is no ${pattern}`)
    for (const { file, text, replacements } of explainedMutants) {
      const times = (await readFile(path.join(root, file), 'utf8')).split(text).length - 1
      if (times !== 1) problems.push(`${text} stands ${times} times in ${file}`)
      if (replacements.includes(text)) problems.push(`${text} in ${file} is not changed`)
    }
    t.same(problems, [])
  },
)

const chosenAreas = Object.entries(rooms).filter(([name]) => wanted === 'all' || wanted === name)
t.ok(wanted === undefined || chosenAreas.length > 0, `a room is called ${wanted}`)

const skip = wanted === undefined ? 'ROLLCALL_MUTANTS is not set' : missing('npm')
t.test('each mutant fails a test or is explained', { skip, timeout: 36_000_000 }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-mutants-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const packages = ['core', 'tap-runner'].map((name) => `@stryker-mutator/${name}@${version}`)
  run('npm', [
    'install',
    '--prefix',
    folder,
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    ...packages,
  ])
  for (const [name, room] of chosenAreas) {
    const mutants = await mutantsOf(room, path.join(folder, name), folder)
    const survivors = mutants.filter(({ isSeen }) => !isSeen)
    const unexplained = survivors.filter((mutant) => !isExplained(mutant))
    for (const { file, line, before, after } of unexplained)
      t.comment(`SURVIVED: ${file}:${line} ${before} => ${after}`)
    const explained = survivors.length - unexplained.length
    t.ok(
      unexplained.length <= (1 - minSeenShare) * mutants.length,
      `${name}: of ${mutants.length} mutants ${mutants.length - survivors.length} were seen, ${explained} are explained, ${unexplained.length} survived`,
    )
  }
})

interface Mutant {
  file: string
  line: number
  /** The changed text, and what it was changed to. */
  before: string
  after: string
  /** The whole file, and where in it the changed text is. */
  source: string
  start: number
  end: number
  isSeen: boolean
}

/** The part of StrykerJS's report that this test reads. */
interface Report {
  files: Record<
    string,
    {
      source: string
      mutants: { status: string; replacement: string; location: Record<'start' | 'end', Place> }[]
    }
  >
}
/** Line and column, counted from 1. */
interface Place {
  line: number
  column: number
}

/** As .taprc says, and random cases that are the same for every mutant. */
const preloaded = ['./test/helpers/strict-comparisons.ts', './test/campaigns/mutants/fixed-cases.ts']

async function mutantsOf(room: Room, folder: string, installed: string): Promise<Mutant[]> {
  const modules = path.join(installed, 'node_modules/@stryker-mutator')
  const report = path.join(folder, 'report.json')
  const settings = path.join(folder, 'stryker.json')
  await mkdir(folder)
  await writeFile(
    settings,
    JSON.stringify({
      mutate: room.files,
      testRunner: 'tap',
      plugins: [path.join(modules, 'tap-runner/dist/src/index.js')],
      tap: { testFiles: room.tests, nodeArgs: preloaded.flatMap((file) => ['--import', file]) },
      coverageAnalysis: 'perTest',
      concurrency: 2,
      // Endless loops end earlier: StrykerJS counts how many times a mutant is reached.
      timeoutMS: 60_000,
      // StrykerJS would write it anew with the compiler, which it doesn't find.
      ignorePatterns: ['tsconfig.json'],
      reporters: ['json'],
      jsonReporter: { fileName: report },
      tempDirName: path.join(folder, 'copy'),
    }),
  )
  run(process.execPath, [path.join(modules, 'core/bin/stryker.js'), 'run', settings])
  const { files }: Report = JSON.parse(await readFile(report, 'utf8'))
  return Object.entries(files).flatMap(([file, { source, mutants }]) =>
    mutants.map(({ status, replacement, location }) => {
      const [start, end] = [offsetOf(source, location.start), offsetOf(source, location.end)]
      const isSeen = status === 'Killed' || status === 'Timeout'
      const [before, after] = [source.slice(start, end), replacement]
      return { file, line: location.start.line, before, after, source, start, end, isSeen }
    }),
  )
}

function offsetOf(source: string, { line, column }: Place): number {
  let at = 0
  for (let i = 1; i < line; i += 1) at = source.indexOf('\n', at) + 1
  return at + column - 1
}

function isExplained({ file, source, start, end, after }: Mutant): boolean {
  return explainedMutants.some((explained) => {
    const from = source.indexOf(explained.text)
    const to = from + explained.text.length
    if (explained.file !== file || start < from || end > to) return false
    return explained.replacements.includes(source.slice(from, start) + after + source.slice(end, to))
  })
}

/** Settings of this process for its own run, such as tap's, are kept from the tests of a mutant. */
const ownSettings = /^(?:TAP|_TAPJS|NODE_OPTIONS|ROLLCALL_)/

/** Runs a program to its end, with this process's node and a low priority. */
function run(program: string, args: readonly string[]): void {
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
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed (${status}):\n${stdout}${stderr}`)
}
