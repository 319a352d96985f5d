import { statfs } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import type { MarkedFolder } from './staging/marked-folder.ts'
import { CachedMetric, registerGauges } from '../runtime/metrics/cached-metric.ts'

/** Metrics of the file system of DATA_DIR, and of whether the folder is available where files lie in it. */
export function observeDataFolder(registry: Registry, path: string, folder: MarkedFolder): void {
  const metric = new CachedMetric(async () => {
    const { bavail, blocks, bsize } = await statfs(path)
    return { free: bavail * bsize, size: blocks * bsize }
  })
  registerGauges(registry, metric, [
    {
      name: 'rollcall_disk_free_bytes',
      help: 'Bytes that can still be written where DATA_DIR lies',
      of: ({ free }) => free,
    },
    {
      name: 'rollcall_disk_size_bytes',
      help: 'Size of the file system that DATA_DIR lies on',
      of: ({ size }) => size,
    },
  ])
  if (!folder.isUsed) return
  registerGauges(registry, new CachedMetric(async () => ({ problem: await folder.check() })), [
    {
      name: 'rollcall_data_folder_available',
      help: 'Whether DATA_DIR has the mark of this installation: 1, or 0 while it is not mounted or belongs to another installation, and no file is read or written',
      of: ({ problem }) => (problem === null ? 1 : 0),
    },
  ])
}
