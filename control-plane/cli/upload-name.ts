import path from 'node:path'
import { composeName } from '../../shared/values/upload-names.ts'

/**
 * The name under which a file is uploaded for its import: its own, shortened, and a mark that makes it unique, because
 * all keys of an organization share the upload directory.
 */
export function uploadName(name: string, mark: string): string {
  const plain = composeName(name)
    .replaceAll(/[\p{Cc}/\\]/gu, '_')
    .replace(/^\.+/, '')
  const [extensions = ''] = /(\.[A-Za-z0-9]{1,8}){0,2}$/.exec(plain) ?? []
  const stem = Array.from(path.basename(plain, extensions)).slice(0, 30).join('')
  return `${stem === '' ? 'subscribers' : stem}-${mark}${extensions}`
}
