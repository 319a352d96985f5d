import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
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

/** Creates an import of a URL into a list of its own, and resolves to its first view. */
export async function createUrlImport(service: Service, url: string, more: Json = {}): Promise<Json> {
  const list = await createList(service)
  return service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { ...emailsOnly, file_source: { type: 'url', url }, ...more },
  })
}

/** A self-signed certificate for the names; null where there is no openssl to make it. */
export function selfSigned(t: Test, names: string): { key: string; cert: string; file: string } | null {
  const folder = mkdtempSync(path.join(tmpdir(), 'rollcall-tls-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  const [keyFile, file] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
  const request = ['req', '-x509', '-nodes', '-days', '2', '-newkey', 'ec', '-pkeyopt']
  const subject = ['ec_paramgen_curve:prime256v1', '-subj', '/CN=test', '-addext', `subjectAltName=${names}`]
  try {
    execFileSync('openssl', [...request, ...subject, '-keyout', keyFile, '-out', file], { stdio: 'ignore' })
  } catch {
    return null
  }
  return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(file, 'utf8'), file }
}
