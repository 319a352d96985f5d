import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'

/** Serves one file, as it is and as what `Content-Encoding: gzip` announces; see file-server.ts. */
const [file, packed] = process.argv.slice(2) as [string, string]
const server = createServer((request, response) => {
  const isPacked = request.url?.startsWith('/packed/') === true
  response.setHeader('content-type', 'text/csv')
  if (isPacked) response.setHeader('content-encoding', 'gzip')
  pipeline(createReadStream(isPacked ? packed : file), response, () => undefined)
})
server.listen(0, '127.0.0.1', () => {
  process.send!(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
// The benchmark's end is its end, however that came.
process.once('disconnect', () => process.exit())
