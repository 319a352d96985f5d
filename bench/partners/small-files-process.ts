import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { connect, type FtpAccount } from './connect.ts'
import { keptFiles, type SmallFilesReport } from './partners.ts'

/**
 * Somebody who uploads small files until he is told to end: one after the other with a connection and login for each,
 * and meanwhile in one session. Nothing else happens in this process: what it waits for is the server.
 */

const done = new AbortController()
process.on('message', (message: FtpAccount | 'end') => {
  if (message === 'end') done.abort()
  else
    void Promise.all([smallFiles(message), keptSession(message)]).then(([smallMs, keptMs]) =>
      process.send!({ smallMs, keptMs, smallHash } satisfies SmallFilesReport),
    )
})
process.on('disconnect', () => process.exit())

const content = randomBytes(1_000)
const smallHash = createHash('sha256').update(content).digest('hex')

async function smallFiles(account: FtpAccount): Promise<number[]> {
  const taken: number[] = []
  while (!done.signal.aborted) {
    const startedAt = performance.now()
    const client = await connect(account)
    await client.uploadFrom(Readable.from([content]), `small-${taken.length}.csv`)
    taken.push(performance.now() - startedAt)
    client.close()
  }
  return taken
}

async function keptSession(account: FtpAccount): Promise<number[]> {
  const taken: number[] = []
  const client = await connect(account)
  while (!done.signal.aborted) {
    const startedAt = performance.now()
    await client.uploadFrom(Readable.from([content]), `kept-${taken.length % keptFiles}.csv`)
    taken.push(performance.now() - startedAt)
  }
  client.close()
  return taken
}
