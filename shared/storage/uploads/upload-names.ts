/** Names in the upload directories. Each organization has one flat directory. */

export const maxFileNameBytes = 200

/** Clients may compose or decompose `Ü`, as macOS does: names are stored and compared composed. */
export const composeName = (name: string): string => name.normalize('NFC')

/** Why a composed name is not valid for an upload; null when it is valid. */
export function fileNameProblem(name: string): string | null {
  if (name === '') return 'must not be blank'
  if (name.includes('/') || name.includes('\\') || name === '.' || name === '..')
    return 'must be a plain file name without a path'
  if (/\p{Cc}/u.test(name)) return 'must not hold control characters'
  if (Buffer.byteLength(name) > maxFileNameBytes) return `must not be longer than ${maxFileNameBytes} bytes`
  return null
}
