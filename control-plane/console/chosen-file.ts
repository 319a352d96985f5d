/** What the browser can tell of a file before it is sent. */

/** A file of up to this size goes inline; of a larger one this much is looked at while the whole uploads. */
export const sampleBytes = 1_000_000

/** The beginning of a file as text, up to the end of a line; null where it is no UTF-8 text or is packed. */
export async function readSample(file: File): Promise<string | null> {
  const bytes = new Uint8Array(await file.slice(0, sampleBytes).arrayBuffer())
  const isWhole = file.size <= sampleBytes
  if (isPacked(bytes) || bytes.includes(0)) return null
  try {
    // The last character may be incomplete where the file is longer.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, {
      stream: !isWhole,
    })
    return isWhole ? text : text.slice(0, text.lastIndexOf('\n') + 1) || text
  } catch {
    return null
  }
}

const magics = [
  [0x1f, 0x8b],
  [0x50, 0x4b, 3, 4],
  [0x28, 0xb5, 0x2f, 0xfd],
]
const isPacked = (bytes: Uint8Array): boolean =>
  magics.some((magic) => magic.every((byte, i) => bytes[i] === byte))

const maxCountedBytes = 1_000_000_000

/** Lines end with LF, CR or both. Null for a very large file, and for one that is packed or UTF-16. */
export async function countLines(file: File): Promise<number | null> {
  const start = new Uint8Array(await file.slice(0, 64).arrayBuffer())
  if (file.size > maxCountedBytes || isPacked(start) || start.includes(0)) return null
  const reader = file.stream().getReader()
  let lines = 0
  let last = 0x0a
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return lines + Number(last !== 0x0a && last !== 0x0d)
    for (const byte of value) {
      if ((byte === 0x0a && last !== 0x0d) || byte === 0x0d) lines += 1
      last = byte
    }
  }
}

/** The name of the console's own upload for an import: the service deletes what is left of such ones after a day. */
export function ownUploadName(name: string, random: string): string {
  const plain = name
    .normalize('NFC')
    .replaceAll(/[\p{Cc}/\\]/gu, '_')
    .replace(/^\.+/, '')
  const [ending = ''] = /(\.[A-Za-z0-9]{1,8}){0,2}$/.exec(plain) ?? []
  const stem = Array.from(plain.slice(0, plain.length - ending.length))
    .slice(0, 30)
    .join('')
  return `.console-${random}-${stem === '' ? 'file' : stem}${ending}`
}
