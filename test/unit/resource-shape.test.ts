import { glob, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))
const resources = path.join(root, 'control-plane/resources')

/** The files of each resource, and `refusals.ts` where it has some. One that is cut by use case has no others beside its folders. */
const fileNames = ['routes.ts', 'schemas.ts', 'service.ts', 'view.ts']
/** Resources with a folder for each use case. In the others a use case may have a file of its own. */
const cutByUseCase = ['subscribers', 'subscriber-imports']

t.test('a resource has routes, schemas, service and view, a large one a folder a use case', async (t) => {
  const problems: string[] = []
  for (const resource of await readdir(resources, { withFileTypes: true })) {
    if (resource.isFile()) continue
    const entries = await readdir(path.join(resources, resource.name), { withFileTypes: true })
    const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name)
    for (const name of fileNames) if (!files.includes(name)) problems.push(`${resource.name} has no ${name}`)
    if (cutByUseCase.includes(resource.name))
      for (const name of files)
        if (name !== 'refusals.ts' && !fileNames.includes(name)) problems.push(`${resource.name} has ${name}`)
    for (const folder of entries.filter((entry) => entry.isDirectory())) {
      const inside = await readdir(path.join(resources, resource.name, folder.name))
      if (!inside.includes('service.ts')) problems.push(`${resource.name}/${folder.name} has no service.ts`)
    }
  }
  t.same(problems, [])
})

/** Stores, and files that count as one: GridFS, the writes of a batch with their commands, the schema, and the counters of ids. */
const storeFiles = [
  /\/store\//,
  /^shared\/storage\//,
  /^shared\/runtime\/(?:ensure-schema|id-allocator)\.ts$/,
  /^engine\/stages\/write\/(?:batch-writer|bson\/bson-commands)\.ts$/,
]

t.test('only stores write to collections', async (t) => {
  const write =
    /\.\s*(?:(?:insert|update|delete|replace)(?:One|Many)|findOneAnd\w+|bulkWrite)\s*\(|\b(?:insert|update)Bson\b|\$(?:merge|out)\b/
  const files = await Array.fromAsync(glob('{control-plane,engine,ftp,shared}/**/*.ts', { cwd: root }))
  t.ok(files.length > 300, 'all sources are read')
  const others = files.filter((file) => !storeFiles.some((pattern) => pattern.test(file)))
  const writing: string[] = []
  for (const file of others) if (write.test(await readFile(path.join(root, file), 'utf8'))) writing.push(file)
  t.same(writing, [])
})
