import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))
const rooms = ['shared', 'control-plane', 'engine', 'ftp', 'bench', 'docs', 'test'] as const

/**
 * Which folders may import from which. Folders that serve a request or an import meet in documents, never in code.
 */
const allowed: Record<(typeof rooms)[number], readonly string[]> = {
  shared: [],
  'control-plane': ['shared'],
  engine: ['shared'],
  ftp: ['shared'],
  bench: ['shared', 'engine', 'control-plane'],
  docs: [],
  test: ['shared', 'engine', 'control-plane', 'ftp', 'bench', 'docs'],
}

const posix = (file: string): string => file.replaceAll(path.sep, '/')

interface Source {
  file: string
  text: string
  imports: string[]
}

async function sourcesOf(room: string): Promise<Source[]> {
  const names = (await readdir(path.join(root, room), { recursive: true })).filter((name) =>
    name.endsWith('.ts'),
  )
  return Promise.all(
    names.map(async (name) => {
      const file = path.join(room, name)
      const text = await readFile(path.join(root, file), 'utf8')
      const targets = [
        ...text.matchAll(/(?:from |import |import\(\s*)'([^']+)'|new URL\('([^']+)', import\.meta\.url\)/g),
      ].map((match) => match[1] ?? match[2]!)
      return { file, text, imports: targets }
    }),
  )
}

for (const room of rooms) {
  t.test(`${room} imports only ${allowed[room].join(', ') || 'itself'}`, async (t) => {
    for (const { file, imports } of await sourcesOf(room)) {
      for (const target of imports.filter((name) => name.startsWith('.'))) {
        const [other] = path.relative(root, path.resolve(root, path.dirname(file), target)).split(path.sep)
        // The command line starts the processes: it names their files and imports nothing of them.
        const isStart = file === path.join('control-plane', 'cli', 'processes.ts')
        if (other !== room && rooms.includes(other as never) && !allowed[room].includes(other!) && !isStart)
          t.fail(`${file} reaches into ${other}`)
      }
    }
    t.pass()
  })
}

/**
 * Inside `shared`, a folder may import values and functions of those before it. Types may come from anywhere in it.
 */
const layers = ['values', 'contract', 'csv', 'containers', 'runtime', 'net', 'store', 'storage', 'processes']

t.test('the folders of shared build on each other in one direction', async (t) => {
  for (const { file, text } of await sourcesOf('shared')) {
    const layer = layers.indexOf(file.split(path.sep)[1]!)
    t.not(layer, -1, file)
    for (const [, target] of text.matchAll(/^import (?!type )[^;]*?from '(\.[^']+)'/gm)) {
      const [, room] = path.relative(root, path.resolve(root, path.dirname(file), target!)).split(path.sep)
      if (layers.indexOf(room!) > layer) t.fail(`${file} imports ${target}`)
    }
  }
})

t.test('csv knows nothing of MongoDB, threads or files; what reads records nothing of rows', async (t) => {
  for (const { file, imports } of await sourcesOf('shared/csv')) {
    t.notOk(
      imports.find((name) => /^(mongodb|piscina|node:(fs|worker_threads|net|http))/.test(name)),
      file,
    )
    if (!path.basename(file).startsWith('row-'))
      t.notOk(
        imports.find((name) => name.startsWith('./row-')),
        file,
      )
  }
})

t.test('a worker thread loads no schema, which would take 6 MB of each', async (t) => {
  const loaded = new Set([path.join('engine', 'workers', 'chunk-worker.ts')])
  for (const file of loaded) {
    const text = await readFile(path.join(root, file), 'utf8')
    for (const [, target] of text.matchAll(/^import (?!type )(?:[^;]*? from )?'([^']+)'/gm)) {
      t.not(target, 'zod', file)
      if (target!.startsWith('.')) loaded.add(path.join(path.dirname(file), target!))
    }
  }
  t.ok(loaded.has(path.join('shared', 'contract', 'schemas', 'import.ts')), 'imports are followed')
})

t.test('only config.ts reads the environment, only clock.ts the time, only processes exit', async (t) => {
  for (const room of ['shared', 'control-plane', 'engine', 'ftp']) {
    for (const { file, text } of await sourcesOf(room)) {
      if (/process\.env\b/.test(text) && file !== path.join('shared', 'runtime', 'config.ts'))
        t.fail(`${file} reads the environment`)
      // What runs in a browser has the browser's clock.
      if (file.startsWith(path.join('control-plane', 'console', path.sep))) continue
      if (
        /\b(performance|Date)\.now\b|\bDate\(\)|\bhrtime\b/.test(text) &&
        file !== path.join('shared', 'runtime', 'clock.ts')
      )
        t.fail(`${file} has a clock of its own`)
      if (
        /process\.exit\(/.test(text) &&
        !['shared/runtime/service.ts', 'shared/runtime/mongod/download-from-mongodb-child.ts'].includes(
          posix(file),
        ) &&
        !posix(file).startsWith('control-plane/cli/')
      )
        t.fail(`${file} exits`)
    }
  }
  t.pass()
})

t.test('only the stores touch the documents that they have the state changes of', async (t) => {
  const kept = 'imports|chunks|engines|processes|callbacks|uploads|ledgers'
  const writes = new RegExp(
    String.raw`\b(${kept})\s*\.\s*((insert|update|delete|replace)(One|Many)|findOneAnd\w+|bulkWrite)\b`,
  )
  // Under another name, or as an argument, a collection could be written unseen.
  const handedOn = new RegExp(
    String.raw`\bcollections\.(${kept})\b(?!\s*\.)|\b(${kept}): \w+[^{}]*\} = [\w.#]*\bcollections\b`,
  )
  const stores = ['shared/store/', 'engine/store/', 'control-plane/store/']
  for (const room of ['shared', 'control-plane', 'engine', 'ftp']) {
    for (const { file, text } of await sourcesOf(room)) {
      if (stores.some((store) => posix(file).startsWith(store))) continue
      t.notOk(writes.test(text), file)
      t.notOk(handedOn.test(text), file)
    }
  }
})

t.test('routes leave reads and writes to services', async (t) => {
  for (const { file, text } of await sourcesOf('control-plane')) {
    if (path.basename(file) === 'routes.ts')
      t.notMatch(text, /\bcollections\s*\.|\} = [\w.]*\bcollections\b|\breadPage\(/, file)
  }
})
