import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { programs } from '../../control-plane/cli/processes.ts'
import { downloadsSetting, type Downloads } from './hasty-engine-setting.ts'
import { createList, startProgram, type Json, type Service } from './service.ts'

/** Imports from URLs, by an engine that doesn't wait for long. */

const program = fileURLToPath(new URL('hasty-engine.ts', import.meta.url))

export async function startHastyEngine(
  t: Test,
  service: Service,
  downloads: Downloads,
  settings: Record<string, string> = {},
) {
  const engine = await startProgram([program], {
    ...service.settings,
    ...programs.engine.environment,
    ...settings,
    [downloadsSetting]: JSON.stringify(downloads),
  })
  t.teardown(() => engine.stop())
  if (engine.ready === null) throw new Error(`the engine didn't start:\n${engine.log()}`)
  return engine
}

export const emailsOnly = { column_mapping: ['email'], file_format: { csv_has_headers: false } }

/** Creates an import of a URL on a new list. Resolves to its first view. */
export async function createUrlImport(service: Service, url: string, more: Json = {}): Promise<Json> {
  const list = await createList(service)
  return service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { ...emailsOnly, file_source: { type: 'url', url }, ...more },
  })
}
