import { sweepStaging } from '../../engine/jobs/sweep-staging.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import { folderStaging } from './folder-staging.ts'
import type { Service } from './service.ts'
import { storedUploads } from './stored-uploads.ts'

/**
 * Does what engines do every 10 minutes: removes files that no import needs, and unpins uploads. Staged files must be an
 * hour old, unless they may be `ofAnyAge`. Resolves to the number of both.
 */
export function sweepFiles(service: Service, { ofAnyAge = false } = {}): Promise<Record<string, number>> {
  const disk = folderStaging(service.dataFolder)
  const staging: Staging = ofAnyAge
    ? { ...disk, listImports: () => disk.listImports({ olderThanMs: 0 }) }
    : disk
  const { uploads } = storedUploads(service)
  const log = createLogger({ process: 'test', level: 'fatal' })
  return sweepStaging(service, { staging, uploads }, log).runOnce()
}
