import { Readable } from 'node:stream'
import { onServices } from '../compare.ts'
import { measure } from '../measure.ts'
import { uploadByFtp, type Service } from '../service.ts'

const piece = Buffer.alloc(100_000, 'x')

/** A row is a megabyte. */
export const uploadDoors = onServices({
  name: 'upload-doors',
  summary: 'one upload at a time, by FTP and over HTTP',
  quick: ['--rounds', '1'],
  defaultRows: 512,
  kinds: ['FTP', 'HTTP'],
  unit: 'MB',
  prepare: async () => null,
  settings: async () => ({ UPLOAD_MAX_MB: '0' }),
  async measure(service, _, { kind, rows }) {
    // New processes compile their code during the first upload, so this isn't measured.
    await upload(service, kind, 64)
    const work = await measure(service.database.client, {
      processes: [service.measured(kind === 'FTP' ? 'FTP server' : 'control plane')],
      rows,
      do: () => upload(service, kind, rows),
    })
    const [stored] = await service.client.get<{ size: number }[]>('/uploads')
    const wrong = stored?.size === rows * 1e6 ? null : `${stored?.size} bytes are stored of ${rows} MB`
    return { ...work, wrong }
  },
})

async function upload(service: Service, kind: string, megabytes: number): Promise<void> {
  const source = Readable.from(
    Array.from({ length: megabytes * 10 }, () => piece),
    { objectMode: false },
  )
  if (kind === 'FTP') await uploadByFtp(service, source, 'door.bin')
  else {
    const headers = { 'content-length': String(megabytes * 1e6) }
    await service.client.putBytes('/uploads/door.bin', source, headers)
  }
}
