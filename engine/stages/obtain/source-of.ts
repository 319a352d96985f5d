import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { jsonSource } from './json.ts'
import type { Source } from './source.ts'
import { uploadDirectorySource } from './upload-directory.ts'
import { urlSource } from './url.ts'

export function selectSource(document: ImportDocument): Source {
  switch (document.source.type) {
    case 'json':
      return jsonSource
    case 'upload_directory':
      return uploadDirectorySource
    case 'url':
      return urlSource
  }
}
