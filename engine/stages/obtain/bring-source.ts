import type { Staging } from '../../../shared/storage/staging/staging.ts'
import type { StepRun } from '../../scheduler/step.ts'
import { selectSource } from './source-of.ts'
import type { SourceContext } from './source.ts'
import { ZipSpool } from './zip-spool.ts'

/** Brings the import's source into staging, against the organization's quota. Resolves and throws as Source does. */
export async function bringSource(
  run: StepRun,
  target: string,
  download: Pick<SourceContext, 'remainingMs' | 'onProgress'> = {
    remainingMs: 0,
    onProgress: () => undefined,
  },
): Promise<string> {
  const { document, uploads, secrets, guard, bounds, signal } = run
  const within = document.source.type === 'url' ? 'all' : 'staged'
  const staging: Staging = {
    ...run.staging,
    write: (name, content) => run.staging.write(name, run.quota.reserved(document, content, within)),
  }
  const zips = new ZipSpool(run, { target, within })
  return selectSource(document)(document, {
    ...{ staging, target, uploads, secrets, guard, bounds, signal },
    spool: (content) => zips.store(content),
    ...download,
  })
}
