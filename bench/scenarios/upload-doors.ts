import { Readable } from 'node:stream'
import { onServices } from '../compare.ts'
import { measure } from '../measure.ts'
import { measuredProcess } from '../processes.ts'
import { uploadByFtp } from '../service.ts'

const megabytes = 512
const piece = Buffer.alloc(64_000, 'x')
const pieces = (megabytes * 1e6) / piece.length

function* repeatPiece(): Generator<Buffer> {
  for (let i = 0; i < pieces; i += 1) yield piece
}

export const uploadDoors = onServices({
  name: 'upload-doors',
  summary: `one upload of ${megabytes} MB at a time, by FTP and over HTTP`,
  quick: ['--rounds', '1'],
  defaultRows: megabytes,
  kinds: ['FTP', 'HTTP'],
  unit: 'MB',
  prepare: async () => null,
  settings: async () => ({ UPLOAD_MAX_MB: '0' }),
  async measure(service, _, { kind }) {
    const source = Readable.from(repeatPiece(), { objectMode: false })
    const headers = { 'content-length': String(pieces * piece.length) }
    const receiver = kind === 'FTP' ? 'ftp' : 'control_plane'
    const work = await measure(service.database.client, {
      processes: [measuredProcess(receiver, service.metrics[receiver])],
      rows: megabytes,
      do: async () =>
        kind === 'FTP'
          ? uploadByFtp(service, source, 'door.bin')
          : service.client.putBytes('/uploads/door.bin', source, headers),
    })
    return { ...work, wrong: null }
  },
})
