import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Client as FtpClient } from 'basic-ftp'
import type { ApiClient } from '../../control-plane/cli/api-client.ts'
import { wrongImport } from '../check-import.ts'
import { onServices } from '../compare.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import {
  connect,
  largeFile,
  runPartners,
  type FtpAccount,
  type LargeFiles,
  type SmallFiles,
} from '../partners/partners.ts'
import { metric } from '../processes.ts'
import { percentile, spread } from '../statistics.ts'

const partners = 20
const megabytes = 100
const smallFile = '1 kB, connection and login for each'

/** Partners upload large files, all at once, while an import runs. What counts is the time of small files meanwhile. */
export const ftpUploads = onServices({
  name: 'ftp-uploads',
  summary:
    '20 partners upload 100 MB each while an import runs, and one more small files; plain and with TLS',
  quick: ['--rows', '100000', '--rounds', '1'],
  defaultRows: 300_000,
  kinds: ['plain', 'TLS'],
  unit: 'MB',
  timesOf: 'an upload of 1 kB',
  prepare: writeSubscriberFile,
  settings: async (kind, folder) => (kind === 'TLS' ? makeCertificate(folder) : {}),
  goals: ({ contenders }) =>
    contenders.flatMap(({ name: kind, rounds }) => [
      {
        work: `1 kB with connection and login, ${kind}: p99`,
        max: 1_000,
        unit: ' ms',
        measured: spread([
          percentile(
            rounds.flatMap(({ times }) => times![smallFile]!),
            0.99,
          ),
        ]),
      },
      {
        work: `memory of the FTP server, ${kind}`,
        max: 300,
        unit: ' MB',
        measured: spread(rounds.map(({ processes }) => processes['FTP server']!.peak_memory_mb)),
      },
    ]),
  async measure(service, { dataset, file }, { kind, seed }) {
    const { client, database, ftp, measured, place } = service
    await place(createReadStream(file), 'rows.csv')
    const server = { host: ftp.hostname, port: Number(ftp.port), tls: kind === 'TLS' }
    const account = async (name: string) => ({ ...server, key: await createKey(client, name) })
    const small = await account('Partner with small files')
    const large = await Promise.all(Array.from({ length: partners }, (_, i) => account(`Partner ${i + 1}`)))
    const list = await createList(client, 'bench')
    let uploadedMB = 0
    const received = `rollcall_ftp_bytes_total\\{protocol="${kind === 'TLS' ? 'ftps' : 'ftp'}",direction="in"\\}`
    const ftpServer = measured('FTP server', (text) => {
      uploadedMB = metric(text, received) / 1e6
    })
    const total = partners * megabytes
    const { done, ...work } = await measure(database.client, {
      processes: [ftpServer],
      rows: total,
      progress: () => Math.min(uploadedMB, total),
      do: async () => {
        const id = await startImport(client, list.listId, { file_source: uploaded('rows.csv') })
        return { id, files: await runPartners(large, small, { megabytes, seed }) }
      },
    })
    const { id, files } = done
    const view = await pollImport(client, id)
    return {
      ...work,
      seconds: files.seconds,
      times: { [smallFile]: files.smallMs },
      wrong:
        (await wrongImport(service, { view, list, expected: dataset.expectedCounts(), leaves: dataset })) ??
        (await wrongLargeFiles(large, files)) ??
        (await wrongSmallFiles(small, files)),
    }
  },
})

/** Settings with a certificate that is made for the run. */
async function makeCertificate(folder: string): Promise<Record<string, string>> {
  const [key, certificate] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
  const days = ['-days', '2', '-subj', '/CN=localhost']
  const args = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', certificate, ...days]
  await promisify(execFile)('openssl', args)
  return { FTP_TLS_CERT: certificate, FTP_TLS_KEY: key }
}

async function createKey(client: ApiClient, name: string): Promise<string> {
  const { id } = await client.post<{ id: number }>('/organizations', { organization: { name } })
  const path = `/organizations/${id}/api_keys`
  const { key } = await client.post<{ key: string }>(path, { api_key: { name: 'ftp' } })
  return key
}

async function wrongLargeFiles(accounts: FtpAccount[], { hashes }: LargeFiles): Promise<string | null> {
  for (const [i, account] of accounts.entries())
    if ((await inSessionOf(account, (client) => hashUpload(client, largeFile))) !== hashes[i])
      return `the file of partner ${i + 1} isn't what was uploaded`
  return null
}

const wrongSmallFiles = (account: FtpAccount, { smallMs, smallHash }: SmallFiles) =>
  inSessionOf(account, async (client) => {
    const names = (await client.list()).map(({ name }) => name).filter((name) => name.endsWith('.csv'))
    if (names.length !== smallMs.length)
      return `there are ${names.length} small files instead of ${smallMs.length}`
    for (const name of names)
      if ((await hashUpload(client, name)) !== smallHash) return `${name} isn't what was uploaded`
    return null
  })

async function inSessionOf<T>(account: FtpAccount, work: (client: FtpClient) => Promise<T>): Promise<T> {
  const client = await connect(account)
  try {
    return await work(client)
  } finally {
    client.close()
  }
}

async function hashUpload(client: FtpClient, name: string): Promise<string> {
  const hash = createHash('sha256')
  await client.downloadTo(hash, name)
  return hash.digest('hex')
}
