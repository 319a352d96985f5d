import type { SpooledFile } from '../../../shared/containers/unpack.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import type { StepRun } from '../../scheduler/step.ts'
import { selectSource } from './source-of.ts'
import type { SourceContext } from './source.ts'

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
  /** Sizes of the zips that are stored at present, by their staged names. */
  const spooled = new Map<string, number>()
  const spooledBytes = () => [...spooled.values()].reduce((sum, size) => sum + size, 0)
  const write: Staging['write'] = (name, content) =>
    run.staging.write(name, run.quota.reserved(document, content, within, spooledBytes()))

  const spool = async (content: AsyncIterable<Buffer>): Promise<SpooledFile> => {
    const name = `${target}-zip${spooled.size}`
    const size = await write(name, content)
    const file = await run.staging.open(name)
    if (file === null) throw new Error(`the staged file ${name} is gone: was DATA_DIR/staging emptied?`)
    spooled.set(name, size)
    return {
      size,
      read: (bytes, position) => file.read(bytes, position),
      close: async () => {
        spooled.delete(name)
        await file.close()
        await run.staging.remove(name)
      },
    }
  }
  return selectSource(document)(document, {
    ...{ staging: { ...run.staging, write }, target, uploads, secrets, guard, bounds, signal, spool },
    ...download,
  })
}
