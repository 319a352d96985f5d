import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { parseBody } from '../../../control-plane/api/body/parse-body.ts'
import type { ControlPlane } from '../../../control-plane/control-plane.ts'
import {
  admitImport,
  withdrawImport,
} from '../../../control-plane/resources/subscriber-imports/create/admission.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { folderStaging } from '../../helpers/folder-staging.ts'
import { readContent } from '../../helpers/staged-content.ts'

const { folder } = await databaseAndFolder(t)
const disk = folderStaging(folder)
const document = { _id: 7, organization_id: 1, source: { type: 'json' } } as ImportDocument

/** Stages a text as a creation does; resolves to the bytes that count to the quota, which `deps` can withdraw again. */
async function stage(text: string, staging: Staging = disk) {
  const body = JSON.stringify({ text })
  const { content } = parseBody({ pieces: [Buffer.from(body)], inlineText: { path: ['text'] } })
  const counted = { bytes: 0 }
  const stagedQuota = {
    enter: (_organization: number, _id: number, bytes: number) => {
      counted.bytes += bytes
      return Promise.resolve('entered')
    },
    removeEntry: () => Promise.resolve((counted.bytes = 0)),
  }
  const deps = { staging, stagedQuota, settings: {} } as unknown as ControlPlane
  return { deps, counted, admitted: admitImport(deps, { content }, document) }
}

t.test('content is staged as it counts, and leaves nothing where its import is not created', async (t) => {
  for (const text of ['email\n', 'x'.repeat(10_000_000)]) {
    const { deps, counted, admitted } = await stage(text)
    await admitted
    const file = path.join(folder, 'staging', stagedContent(7))
    t.equal((await readContent(disk, 7)).toString(), text)
    t.equal(counted.bytes, (await stat(file)).size, 'what it takes in the staging is counted')
    const modes = [path.dirname(file), file].map(async (name) => (await stat(name)).mode & 0o777)
    t.same(await Promise.all(modes), [0o700, 0o600], 'other users of the machine cannot read it')
    await withdrawImport(deps, document)
    t.same([await readdir(path.join(folder, 'staging')), counted.bytes], [[], 0])
  }
})

t.test('a full disk is said, whenever it shows, and nothing stays', async (t) => {
  for (const blocksBefore of [0, 1]) {
    const full: Staging = {
      ...disk,
      write: (name, content) => disk.write(name, failingAfter(blocksBefore, content)),
    }
    const { counted, admitted } = await stage('x'.repeat(4_000_000), full)
    await t.rejects(admitted, { code: 'internal_error', status: 507, message: /too little space left/ })
    t.same([await readdir(path.join(folder, 'staging')), counted.bytes], [[], 0])
  }
})

async function* failingAfter(pieces: number, content: AsyncIterable<Uint8Array>) {
  let left = pieces
  for await (const bytes of content) {
    if (left-- === 0) throw noSpace()
    yield bytes
  }
  throw noSpace()
}

const noSpace = () => Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
