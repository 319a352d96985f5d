import { gzipSync } from 'node:zlib'
import t from 'tap'
import { gunzip } from '../../../shared/net/gzip.ts'

const first = gzipSync('a,b\n1,2\n')
const second = gzipSync('3,4\n')
const padding = Buffer.alloc(512)

async function unpacked(whole: Buffer, pieceLength: number): Promise<string> {
  const pieces = (async function* () {
    for (let i = 0; i < whole.length; i += pieceLength) yield whole.subarray(i, i + pieceLength)
  })()
  return Buffer.concat(await Array.fromAsync(gunzip(pieces, 'the file'))).toString()
}

for (const pieceLength of [1, 7, 64, 65_536]) {
  t.test(`a file is unpacked in pieces of ${pieceLength} bytes`, async (t) => {
    t.equal(await unpacked(Buffer.concat([first, second]), pieceLength), 'a,b\n1,2\n3,4\n', 'two members')
    t.equal(await unpacked(Buffer.concat([first, padding]), pieceLength), 'a,b\n1,2\n', 'a padded end')
    const refused: [string, Buffer][] = [
      ['a member behind padding', Buffer.concat([first, padding, second])],
      ['other bytes behind the end', Buffer.concat([first, Buffer.from('xx')])],
      ['no end', first.subarray(0, -3)],
    ]
    for (const [what, bytes] of refused)
      await t.rejects(unpacked(bytes, pieceLength), { code: 'source_unreadable', message: /the file/ }, what)
  })
}
