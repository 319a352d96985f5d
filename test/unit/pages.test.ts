import { access, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { wakeUpCollectionName } from '../../shared/contract/schemas/collections.ts'
import { collectionDefinitions } from '../../shared/contract/schemas/collection-definitions.ts'
import { chunkDocument, importDocument } from '../../shared/contract/schemas/import-schema.ts'

/** In pages for people each link leads somewhere, and each page can be reached. */

const root = fileURLToPath(new URL('../..', import.meta.url))
const inFolder = async (folder: string): Promise<string[]> =>
  (await readdir(path.join(root, folder)))
    .filter((name) => name.endsWith('.md'))
    .map((name) => path.join(folder, name))
const pages = (await Promise.all(['', 'docs', 'docs/decisions', 'bench'].map(inFolder))).flat()
const texts = new Map(
  await Promise.all(
    pages.map(async (page) => [page, await readFile(path.join(root, page), 'utf8')] as const),
  ),
)

/** Anchors as GitHub makes them of headings. */
const anchorsOf = (text: string): string[] =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )

t.test('links lead to files and headings that are there, and every page is linked', async (t) => {
  const linked = new Set<string>()
  for (const [page, text] of texts) {
    for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^\w+:/.test(target!)) continue
      const [file, anchor] = target!.split('#') as [string, string | undefined]
      const to = file === '' ? page : path.join(path.dirname(page), file)
      if (to !== page) linked.add(to)
      await t.resolves(access(path.join(root, to)), `${page} links ${target}`)
      if (anchor !== undefined && texts.has(to))
        t.ok(anchorsOf(texts.get(to)!).includes(anchor), `${page} links ${target}`)
    }
  }
  t.same(
    pages.filter((page) => page.startsWith('docs') && !linked.has(page)),
    [],
  )
})

/** 2,600 characters fit on a screen. */
const screenLength = 2_600

t.test('a decision has a page of a screen, with its number, a question and a decision', (t) => {
  const decisions = pages.filter((page) => page.startsWith('docs/decisions/'))
  t.ok(decisions.length > 0)
  const faulty = decisions.filter((page) => {
    const text = texts.get(page)!
    const number = path.basename(page).slice(0, 3)
    return !(
      text.length <= screenLength &&
      text.startsWith(`# ${number} `) &&
      text.includes('\n**Question.** ') &&
      text.includes('\n**Decision.**')
    )
  })
  t.same(faulty, [])
  t.end()
})

t.test('docs/protocol.md names every collection, and every field of imports and chunks', async (t) => {
  const firstCells = [...texts.get('docs/protocol.md')!.matchAll(/^\| (.*?) \|/gm)].map(([, cell]) => cell!)
  const named = firstCells.map((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  const collections = [...collectionDefinitions.map(({ name }) => name), wakeUpCollectionName]
  t.same(
    collections.filter((name) => !named.some((names) => names.includes(name))),
    [],
  )
  // A row about both documents may name fields of either.
  const documents = { imports: importDocument, import_chunks: chunkDocument }
  for (const [name, { shape }] of Object.entries(documents)) {
    const ofCollection = new Set(named.filter((names) => names.includes(name)).flat())
    t.same(
      Object.keys(shape).filter((field) => field !== '_id' && !ofCollection.has(field)),
      [],
      name,
    )
  }
})
