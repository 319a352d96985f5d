import { randomUUID } from 'node:crypto'
import { access, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { keyHashSecret } from '../../store/api-keys.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import { errorCode } from '../../contract/errors.ts'
import { adoptDataFolderId, listImportsWithStagedFiles, readDataFolderId } from '../../store/installation.ts'
import { stagingFolder, type StagingLocation } from './open-staging.ts'
import { syncFolder } from './sync-folder.ts'

/**
 * The mark of the installation: an id in the database, and the same id in a file of DATA_DIR. A process whose
 * DATA_DIR isn't mounted finds no mark. A process with the folder of another installation finds a different mark.
 *
 * The mark is created once. A process writes a candidate id into its folder before it offers it to the database. The
 * first candidate that the database adopts is the id. A process that finds that candidate in its folder renames it to
 * the mark. So exactly one of several folders gets the mark, even where processes are killed in between.
 */
const markName = 'installation.id'

export interface MarkLocation extends StagingLocation {
  MONGODB_DATABASE: string
}

/** `isForeign`: the folder has the mark of another installation. */
export interface MarkProblem {
  text: string
  isForeign: boolean
}

export class FolderMark {
  readonly #location: MarkLocation
  readonly #collections: Collections
  readonly #file: string
  /** Null until it is read. It never changes afterwards. */
  #id: string | null = null

  constructor(location: MarkLocation, collections: Collections) {
    this.#location = location
    this.#collections = collections
    this.#file = path.join(location.DATA_DIR, markName)
  }

  /**
   * Compares the mark of the folder with the id in the database; null where they match. Throws the database's errors.
   */
  async compare(): Promise<MarkProblem | null> {
    // The folder is read first: a process that marks it has given the id to the database before.
    const found = await this.#read()
    this.#id ??= await readDataFolderId(this.#collections)
    if (typeof found !== 'string') return found
    if (found !== '') return found === this.#id ? null : this.#foreign(found)
    if (this.#id === null) {
      const problem = await this.#unmarkedProblem()
      if (problem !== null) return problem
      this.#id = await this.#create()
    }
    return this.#nameCandidate(this.#id)
  }

  /** The mark of the folder; empty where there is none. */
  async #read(): Promise<string | MarkProblem> {
    try {
      return (await readFile(this.#file, 'utf8')).trim()
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ENOENT') return ''
      return problem(
        `DATA_DIR ${this.#location.DATA_DIR} can't be read (${code || String(error)} at ${markName}): check its mount and the rights of this user`,
      )
    }
  }

  /** Why a folder without a mark must not be adopted by a database without an id; null where it may be. */
  async #unmarkedProblem(): Promise<MarkProblem | null> {
    const ids = await listImportsWithStagedFiles(this.#collections)
    if (ids.length === 0) return null
    const folder = stagingFolder(this.#location)
    for (const id of ids) if (await exists(path.join(folder, String(id)))) return null
    return problem(
      `the database has unfinished imports with staged files (${ids.slice(0, 10).join(', ')}), and ${folder} has none of them, so it may be an empty mount point: mount the folder that the other processes use; if that one is lost, cancel these imports`,
    )
  }

  async #create(): Promise<string> {
    // Creates the document for the id.
    await keyHashSecret(this.#collections)
    const id = randomUUID()
    await writeFile(this.#candidatePath(id), `${id}\n`, { mode: 0o600, flush: true, flag: 'wx' })
    await syncFolder(this.#location.DATA_DIR)
    // Where this throws, the id may have been adopted, so the candidate stays.
    const adopted = await adoptDataFolderId(this.#collections, id)
    if (adopted !== id) await rm(this.#candidatePath(id), { force: true })
    return adopted
  }

  async #nameCandidate(id: string): Promise<MarkProblem | null> {
    const { DATA_DIR } = this.#location
    try {
      await rename(this.#candidatePath(id), this.#file)
      await syncFolder(DATA_DIR)
      return null
    } catch (error) {
      const code = errorCode(error)
      if (code !== 'ENOENT') return problem(`DATA_DIR ${DATA_DIR} can't be marked: ${code || String(error)}`)
    }
    // Another process may have renamed the candidate in between.
    if ((await this.#read()) === id) return null
    return problem(
      `DATA_DIR ${DATA_DIR} lacks the mark of this installation, the file ${markName}, so it may be an empty mount point: mount the folder that the other processes use; if that one is lost and this one takes its place, write ${id} into ${this.#file}`,
    )
  }

  #candidatePath(id: string): string {
    return `${this.#file}.${id}.new`
  }

  #foreign(found: string): MarkProblem {
    const { DATA_DIR, MONGODB_DATABASE } = this.#location
    const database = JSON.stringify(MONGODB_DATABASE)
    const text =
      this.#id === null
        ? `DATA_DIR ${DATA_DIR} belongs to another installation: it has the mark ${shown(found)}, and the database ${database} has none. Set DATA_DIR, MONGODB_URI and MONGODB_DATABASE to what belongs together; if the database is an older backup of the same installation, remove ${this.#file}`
        : `DATA_DIR ${DATA_DIR} belongs to another installation: it has the mark ${shown(found)}, and the database ${database} has ${this.#id}. Set DATA_DIR, MONGODB_URI and MONGODB_DATABASE to what belongs together; if this folder is to belong to this database from now on, write ${this.#id} into ${this.#file}`
    return { text, isForeign: true }
  }
}

const problem = (text: string): MarkProblem => ({ text, isForeign: false })

const shown = (found: string): string => JSON.stringify(found.slice(0, 40))

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  )
