/** Containers are recognized by their first bytes and never by the name of the file. */
export type ContainerKind = 'gzip' | 'zstd' | 'zip'

/** Bytes at the beginning that are enough to recognize a container. */
export const headBytes = 8
/** Containers that may be one in the other. */
export const maxContainers = 2

/** The kind of container that begins with these bytes; null for other content. */
export function findContainer(head: Uint8Array): ContainerKind | null {
  const magic = Buffer.from(head.subarray(0, headBytes)).toString('hex')
  return kinds.find(([, begins]) => begins.test(magic))?.[0] ?? null
}

const kinds: [ContainerKind, RegExp][] = [
  ['gzip', /^1f8b/],
  // A frame of data, or one that is skipped.
  ['zstd', /^28b52ffd|^5[\da-f]2a4d18/],
  // A file, the end of an empty zip, the first part of several, or a mark of parts before a file.
  ['zip', /^504b(0304|0506|0708|3030504b0304)/],
]
