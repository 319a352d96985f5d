import type { MarkedFolder } from './marked-folder.ts'
import type { Staging } from './staging.ts'

/**
 * Staging where `write`, `create`, `removeImport` and `listImports` throw FolderUnavailable while DATA_DIR is
 * unavailable. A `write` succeeds only when DATA_DIR is still available after it. `open` has no guard: a caller that
 * finds no file checks the folder itself.
 */
export function guardedStaging(staging: Staging, folder: MarkedFolder): Staging {
  return {
    ...staging,
    async write(name, content) {
      await folder.require()
      const size = await staging.write(name, content)
      await folder.require({ fresh: true })
      return size
    },
    async create(name) {
      await folder.require()
      return staging.create(name)
    },
    async removeImport(importId, options) {
      await folder.require()
      return staging.removeImport(importId, options)
    },
    async listImports(options) {
      await folder.require({ fresh: true })
      return staging.listImports(options)
    },
  }
}
