import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const resources = fileURLToPath(new URL('../../control-plane/resources', import.meta.url))

/** The resources whose files have the four names, and whose writes are in stores. */
const shaped = ['subscribers', 'subscriber-imports', 'subscriber-counts']
const fileNames = ['routes.ts', 'schemas.ts', 'service.ts', 'view.ts']

t.test('a resource has the four files, and a folder for each use case', async (t) => {
  for (const resource of shaped) {
    const entries = await readdir(path.join(resources, resource), { withFileTypes: true })
    const others = entries.filter((entry) => entry.isFile() && !fileNames.includes(entry.name))
    t.same(
      others.map(({ name }) => name),
      [],
      resource,
    )
    for (const folder of entries.filter((entry) => entry.isDirectory())) {
      const files = await readdir(path.join(resources, resource, folder.name))
      t.ok(files.includes('service.ts'), `${resource}/${folder.name} has a service`)
    }
  }
})

t.test('resources leave writes to the stores', async (t) => {
  const write = /\.\s*((insert|update|delete|replace)(One|Many)|findOneAnd\w+|bulkWrite)\s*\(/
  const loose = ['credential-changes.ts', 'list-changes.ts', 'outside-names.ts']
  const nested = await Promise.all(
    shaped.map(async (resource) => {
      const names = await readdir(path.join(resources, resource), { recursive: true })
      return names.filter((name) => name.endsWith('.ts')).map((name) => path.join(resource, name))
    }),
  )
  for (const file of [...loose, ...nested.flat()])
    t.notMatch(await readFile(path.join(resources, file), 'utf8'), write, file)
})
