import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createGzip } from 'node:zlib'

/** A web server in a process of its own, with one file: `/plain/NAME`, and `/packed/NAME` with a content encoding. */
export async function startFileServer(file: string): Promise<{ url: string }> {
  const packed = `${file}.packed`
  await pipeline(createReadStream(file), createGzip(), createWriteStream(packed))
  const child = fork(fileURLToPath(new URL('./file-server-process.ts', import.meta.url)), [file, packed])
  const [url] = (await once(child, 'message')) as [string]
  // It ends with this process, and doesn't keep it.
  child.unref()
  child.channel?.unref()
  return { url }
}
