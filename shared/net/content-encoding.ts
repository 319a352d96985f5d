/** Words that clients and servers write into Content-Encoding although the body has no encoding. */
const noCompression = [
  '',
  'identity',
  'none',
  'binary',
  'text',
  'plain',
  '7bit',
  '8bit',
  'aws-chunked',
  'chunked',
]

/** The encodings that a Content-Encoding names, in lower case and in the order in which they were applied. */
export function contentEncodings(header: string): string[] {
  return header
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => !isNoCompression(name))
    .map((name) => (name === 'x-gzip' ? 'gzip' : name))
}

/** Media types and labels of character sets stand there too. */
function isNoCompression(name: string): boolean {
  if (noCompression.includes(name) || name.includes('/')) return true
  try {
    new TextDecoder(name)
    return true
  } catch {
    return false
  }
}
