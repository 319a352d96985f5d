import { statfs } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import { Figure, registerGauges } from './figure.ts'

/** Room where DATA_DIR lies. */
export function observeDisk(registry: Registry, folder: string): void {
  const figure = new Figure(async () => {
    const { bavail, blocks, bsize } = await statfs(folder)
    return { free: bavail * bsize, size: blocks * bsize }
  })
  registerGauges(registry, figure, [
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
}
