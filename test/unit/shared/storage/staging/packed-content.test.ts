import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { folderStaging } from '../../../../helpers/folder-staging.ts'
import { openSource, packed, stagedContent } from '../../../../../shared/storage/staging/packed-content.ts'
import { readContent } from '../../../../helpers/staged-content.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-packed-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const staging = folderStaging(folder)
const block = 256 * 1024

const sizes = [0, 1, block - 1, block, block + 1, 3 * block, 3 * block + 7]
for (const [i, size] of sizes.entries())
  t.test(`${size} bytes are read from any position as they were written`, async (t) => {
    const content = Buffer.concat([
      randomBytes(Math.min(size, 1_000)),
      Buffer.alloc(Math.max(0, size - 1_000), 'ab\n'),
    ])
    const stored = await staging.write(stagedContent(i), Readable.from([packed(content)]))
    t.equal(stored, (await readFile(path.join(folder, 'staging', stagedContent(i)))).length)
    t.ok(stored < 2_000 + size / 100, `${stored} bytes are stored`)
    t.ok((await readContent(staging, i)).equals(content))
    const file = (await openSource(staging, stagedContent(i)))!
    t.equal(file.size, size)
    for (const position of [0, 1, block - 1, block, 2 * block - 5, size - 1, size, size + 10]) {
      if (position < 0) continue
      const target = Buffer.alloc(block + 10)
      const read = await file.read(target, position)
      t.ok(
        target.subarray(0, read).equals(content.subarray(position, position + target.length)),
        `${position}`,
      )
    }
    await file.close()
  })

t.test('content that was damaged is not read as another one', async (t) => {
  const name = stagedContent(100)
  const file = path.join(folder, 'staging', name)
  await staging.write(name, Readable.from([packed(Buffer.alloc(2 * block, 'email\n'))]))
  const whole = await readFile(file)
  const flipped = Buffer.from(whole)
  flipped[20]! ^= 1
  for (const [what, bytes] of Object.entries({
    emptied: Buffer.alloc(0),
    'cut off': whole.subarray(0, -1),
    'cut at its beginning': whole.subarray(5),
    flipped,
  })) {
    await writeFile(file, bytes)
    await t.rejects(readContent(staging, 100), what)
  }
})
