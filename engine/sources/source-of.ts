import type { ImportDocument } from '../../shared/schemas/import.ts'
import { ftpSource } from './ftp-url.ts'
import { httpSource } from './http-url.ts'
import { jsonSource } from './json.ts'
import type { Source } from './source.ts'
import { uploadDirectorySource } from './upload-directory.ts'

export function sourceOf(document: ImportDocument): Source {
  const { type, url } = document.source
  switch (type) {
    case 'json':
      return jsonSource
    case 'upload_directory':
      return uploadDirectorySource
    case 'url':
      return /^ftps?:/i.test(url ?? '') ? ftpSource : httpSource
  }
}
