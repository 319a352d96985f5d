import { spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { glob, mkdir, mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { programSearchPath } from '../shared/runtime/config.ts'
import { createLogger } from '../shared/runtime/logger.ts'
import { MongoClient } from 'mongodb'
import { startEmbeddedMongoDB } from '../shared/runtime/mongod/embedded-mongodb.ts'
import { stallProcesses } from './helpers/stalls.ts'
import { readProtocol, type SkippedTest } from './helpers/tap-protocol.ts'

/**
 * Runs the named tests, files or folders (all, without a name), against one MongoDB server in a temporary folder.
 * Each test file works in databases of its own names. The last line counts the tests that really ran.
 *
 * With ROLLCALL_TEST_MONGODB_URI in the environment they use that server instead. It must be a replica set with
 * `enableTestCommands=1`, as tests set fail points. Tests that start servers of their own are skipped then, and
 * listed.
 *
 * With ROLLCALL_STALLS=8 some process is suspended for 1 to 5 s each 8 s: no test may depend on a quick machine.
 *
 * The server's files are in memory where there is enough of it. Each test file makes all collections and indexes
 * anew, some 120 files that a disk would sync one by one.
 */
const root = fileURLToPath(new URL('..', import.meta.url))
const named = process.argv.slice(2)
const missing = named.filter((arg) => isTestPath(arg) && !existsSync(path.resolve(root, arg)))
if (missing.length > 0) {
  console.error(`no such test file or folder: ${missing.join(' ')} (looked for in ${root}); nothing was run`)
  process.exit(2)
}
const folder = await mkdtemp(path.join(await roomyMemory(), 'rollcall-test-'))
/** The tests' temporary folders, removed with this one, however the tests end. */
const temporary = await mkdtemp(path.join(tmpdir(), 'rollcall-test-'))
const log = createLogger({ process: 'test', level: process.env['ROLLCALL_TEST_LOG'] ?? 'info' })
/**
 * tap records the files that each process loads, in processes that a test starts too. No report uses the record here,
 * and it takes a third of each start. Excluding every file switches it off.
 */
const withoutRecord = 'data:text/javascript,process.env._TAPJS_PROCESSINFO_EXCLUDE_=%22/./%22'

const stopping = new AbortController()
const interrupted = () => {
  stopping.abort()
}
process.on('SIGINT', interrupted)
process.on('SIGTERM', interrupted)

const startsServers = new Set([
  'test/e2e/bad-days.test.ts',
  'test/e2e/default-election.test.ts',
  'test/e2e/demo.test.ts',
  'test/e2e/documented-commands.test.ts',
  'test/e2e/slow-queries.test.ts',
  'test/e2e/start-and-stop.test.ts',
  'test/integration/mongod.test.ts',
])

let exitCode = 1
let summary = 'interrupted'
const externalUri = process.env['ROLLCALL_TEST_MONGODB_URI']
const server = externalUri === undefined ? await startServer() : { uri: externalUri, stop: async () => {} }
try {
  // A fresh installation of tap has its default plugins, and would use them in the run that builds ours.
  if (await hasForeignPlugins()) await tap(['build'])
  console.log(`MongoDB ${await serverVersion()}`)
  const stallSeconds = Number(process.env['ROLLCALL_STALLS'] ?? 0)
  if (stallSeconds > 0) void stallProcesses(stallSeconds, stopping.signal)
  exitCode = await runTap(externalUri === undefined ? named.map(filesOf) : await filesForExternalServer())
} finally {
  await server.stop()
  for (const made of [folder, temporary]) await rm(made, { recursive: true, force: true, maxRetries: 5 })
}
console.log(summary)
process.exit(exitCode)

/** The files to run on a given server, without those that start servers of their own, which would not test it. */
async function filesForExternalServer(): Promise<string[]> {
  const options = named.filter((arg) => arg.startsWith('-'))
  const chosen = named.filter((arg) => !arg.startsWith('-')).map(filesOf)
  const files = await Array.fromAsync(glob(chosen.length > 0 ? chosen : 'test/**/*.test.ts', { cwd: root }))
  for (const file of files.filter((name) => startsServers.has(name)))
    console.log(`skipped: ${file} (it starts MongoDB servers of its own)`)
  return [...options, ...files.filter((name) => !startsServers.has(name))]
}

function startServer(): ReturnType<typeof startEmbeddedMongoDB> {
  return startEmbeddedMongoDB({
    dataFolder: folder,
    cacheMB: 1024,
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log,
    signal: stopping.signal,
  })
}

/** The server's version, and where it is when it was given. */
async function serverVersion(): Promise<string> {
  const client = await MongoClient.connect(server.uri)
  try {
    const { version } = await client.db('admin').command({ buildInfo: 1 })
    return externalUri === undefined ? version : `${version}, given by ROLLCALL_TEST_MONGODB_URI`
  } finally {
    await client.close()
  }
}

/** Whether tap is built with plugins that .taprc leaves out, or not at all. */
async function hasForeignPlugins(): Promise<boolean> {
  const built = path.join(root, 'node_modules/@tapjs/test/test-built/dist/esm/index.js')
  const signature = /signature = `([^`]*)`/.exec(await readFile(built, 'utf8').catch(() => ''))?.[1]
  const left = (await readFile(path.join(root, '.taprc'), 'utf8')).matchAll(/"!(.+)"/g)
  return signature === undefined || [...left].some(([, plugin]) => signature.split('\n').includes(plugin!))
}

/** Neither an option, nor its value, nor a pattern. */
function isTestPath(arg: string): boolean {
  return /^[^-][^*?{[]*$/.test(arg) && (arg.includes('/') || arg.endsWith('.ts'))
}

/** A folder stands for the tests in it, which tap doesn't expand. */
function filesOf(arg: string): string {
  const isFolder = statSync(arg, { throwIfNoEntry: false })?.isDirectory() === true
  return isFolder ? path.join(arg, '**/*.test.ts') : arg
}

/** The folder of the server's files: some 2 GB with the oplog and the journal, and those of the longest tests. */
async function roomyMemory(): Promise<string> {
  const minBytes = 8 * 1024 ** 3
  const { bavail, bsize } = await statfs('/dev/shm').catch(() => ({ bavail: 0, bsize: 0 }))
  return Math.min(bavail * bsize, process.availableMemory()) < minBytes ? tmpdir() : '/dev/shm'
}

/**
 * Runs tap and resolves to its exit code. tap and all that its tests start are one process group. A signal reaches
 * the whole group, as tap passes none on, and what a test left running is killed with it.
 */
async function tap(args: string[], preload: string[] = []): Promise<number> {
  const program = path.join(root, 'node_modules/tap/dist/esm/run.mjs')
  const child = spawn(process.execPath, [...preload.map((file) => `--import=${file}`), program, ...args], {
    cwd: root,
    // tap finds its node on the PATH; it must be this one, which reads TypeScript.
    env: {
      ...process.env,
      PATH: `${path.dirname(process.execPath)}${path.delimiter}${programSearchPath()}`,
      NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${withoutRecord}`.trim(),
      TMPDIR: temporary,
      ROLLCALL_TEST_MONGODB_URI: server.uri,
      // Kept by the first test that asks for it.
      ROLLCALL_TEST_DESCRIPTION: path.join(folder, 'openapi.json'),
      // Hundreds of processes are started; a compile cache halves the time of each start.
      NODE_COMPILE_CACHE: path.join(root, 'node_modules/.cache/rollcall'),
    },
    stdio: 'inherit',
    detached: true,
  })
  /** Whether anybody is there still; 0 only asks. */
  const signalAll = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(-child.pid!, signal)
    } catch {
      return false
    }
  }
  stopping.signal.addEventListener('abort', () => signalAll('SIGTERM'))
  const status = await new Promise<number | null>((resolve) => child.once('exit', resolve))
  // Processes get a moment to end: `npm start` ends its MongoDB, which is not in the group.
  for (let i = 0; i < 50 && signalAll(0); i += 1) await sleep(100)
  signalAll('SIGKILL')
  return status ?? 1
}

/**
 * Runs the files and prints what failed, what was skipped and why. A file that fails fails the run: there is no second
 * try. Resolves to the exit code.
 */
async function runTap(args: string[]): Promise<number> {
  const protocol = path.join(folder, 'all.tap')
  // Drawing progress on a pipe takes as long as two test files. A line as each file ends costs nothing, and what
  // failed is shown in full when all files have ended.
  const isWatched = process.stdout.isTTY || args.some((arg) => arg.startsWith('--reporter'))
  const reporter = isWatched ? 'terse' : 'silent'
  const preload = isWatched ? [] : [path.join(root, 'test/helpers/ended-files.ts')]
  const code = await tap([`--reporter=${reporter}`, `--output-file=${protocol}`, ...args], preload)
  if (stopping.signal.aborted) return 130
  const text = await readFile(protocol, 'utf8').catch(() => '')
  const { passed, failed, skipped, failedFiles, filesWithoutEnd, slowestFiles } = readProtocol(text)
  if (failedFiles.length > 0 && !isWatched) await tap(['replay', '--reporter=terse', ...failedFiles])
  console.log(`slowest: ${slowestFiles.map(({ file, seconds }) => `${file} ${seconds} s`).join(', ')}`)
  for (const { name, reason } of skipped) console.log(`skipped: ${name} (${reason})`)
  const avoidable = process.env['CI'] === 'true' ? skipped.filter(isInstalledByCi) : []
  for (const { name, reason } of avoidable) console.log(`failed because it was skipped: ${name} (${reason})`)
  if (filesWithoutEnd > 0)
    console.log(`failed because they have no end in the protocol: ${filesWithoutEnd} files`)
  const allFailed = Math.max(failed + avoidable.length, code === 0 ? 0 : 1)
  if (allFailed > 0) {
    await mkdir(path.join(root, '.tap'), { recursive: true })
    await writeFile(path.join(root, '.tap/last-failed-run.tap'), text)
    console.log(`tap ended with code ${code}; the protocol is .tap/last-failed-run.tap`)
  }
  summary = `${passed} passed, ${allFailed} failed`
  const isEmpty = passed === 0 && skipped.length === 0
  return code === 0 && (isEmpty || allFailed > 0) ? 1 : code
}

/**
 * .ci/run installs the programs that tests use, but for those that it can build only where there is Go. A skip for one of
 * the others fails the run in CI, or a test may run nowhere and become wrong. A list of allowed skips would grow.
 */
function isInstalledByCi({ reason }: SkippedTest): boolean {
  return reason.endsWith('not installed') && !/mongo(dump|import)/.test(reason)
}
