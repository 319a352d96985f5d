import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { StartError } from '../../shared/contract/errors.ts'
import { loadSettings } from '../../shared/runtime/config.ts'
import { exitCodes } from './exit-codes.ts'

/** Prints the alert rules with runbook URLs that begin with RUNBOOK_URL, the address of the runbook's page. */
const rules = await readFile(
  path.join(import.meta.dirname, '../../docs/monitoring/prometheus/alert-rules.yml'),
  'utf8',
)
try {
  const { RUNBOOK_URL = 'docs/runbook.md' } = loadSettings()
  process.stdout.write(rules.replaceAll('runbook_url: docs/runbook.md#', `runbook_url: ${RUNBOOK_URL}#`))
} catch (error) {
  if (!(error instanceof StartError)) throw error
  process.stderr.write(`rollcall: ${error.message}\n`)
  process.exitCode = exitCodes.failed
}
