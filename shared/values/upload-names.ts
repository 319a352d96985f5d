/**
 * Names in the upload directories. Each organization has one directory. A file of a partner's folder has the name
 * FOLDER/NAME, of which its key sees NAME. A folder is only this part of names: it is there while one has it.
 */

export const maxFileNameBytes = 200

/** The results of imports are to lie in a folder of this name, of the directory and of each folder. */
const reservedName = 'results'

/** Clients may compose or decompose `Ü`, as macOS does: names are stored and compared composed. */
export const composeName = (name: string): string => name.normalize('NFC')

/** Why a composed name is not valid for a file in one folder; null when it is valid. */
export function fileNameProblem(name: string): string | null {
  if (name === '') return 'must not be blank'
  if (name.includes('/') || name.includes('\\') || name === '.' || name === '..')
    return 'must be a plain file name without a path'
  if (name === reservedName) return `must not be "${reservedName}", which is reserved`
  if (/\p{Cc}/u.test(name)) return 'must not hold control characters'
  if (Buffer.byteLength(name) > maxFileNameBytes) return `must not be longer than ${maxFileNameBytes} bytes`
  return null
}

/** The same for a name that may be FOLDER/NAME. */
export function uploadNameProblem(name: string): string | null {
  const { folder, file } = splitName(name)
  return folder === null || isFolderName(folder) ? fileNameProblem(file) : fileNameProblem(name)
}

/** A name is split at its first slash. */
export function splitName(name: string): { folder: string | null; file: string } {
  const slash = name.indexOf('/')
  return slash === -1
    ? { folder: null, file: name }
    : { folder: name.slice(0, slash), file: name.slice(slash + 1) }
}

export const joinName = (folder: string | null, file: string): string =>
  folder === null ? file : `${folder}/${file}`

export const folderExpectation = `must be 1 to 50 letters from A to Z, digits, - and _, and not "${reservedName}"`

export const isFolderName = (text: string): boolean =>
  /^[A-Za-z0-9_-]{1,50}$/.test(text) && text.toLowerCase() !== reservedName
