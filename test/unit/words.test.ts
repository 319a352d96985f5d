import { glob, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A private word that came back often, and the field's term: docs/decisions/149-rooms-and-names.md. */
interface PrivateWord {
  pattern: RegExp
  instead: string
}

const inNames: readonly PrivateWord[] = [
  { pattern: /\b(?:most|least)[A-Z]\w*/g, instead: 'max… or min…' },
  { pattern: /\b\w*(?:[pP]atience|[aA]fterglow)\w*/g, instead: '…TimeoutMs, …DeadlineMs or …GraceMs' },
  { pattern: /\b(?:[lL]ookLoop|lookEvery\w*|betweenLooks\w*)/g, instead: 'poll' },
  {
    pattern: /\b\w*(?:TurnQueue|[sS]urroundings|[rR]ebirth|[bB]lameless)\w*/g,
    instead: 'KeyedMutex, context',
  },
  { pattern: /\b(?:gatheredRead|sharedRead|joinNext|HeldQuota|areLast)\b/g, instead: 'batch, singleFlight' },
]

const inSentences: readonly PrivateWord[] = [
  { pattern: /\b(?:whoever|whomever|somebody|nobody)\b/gi, instead: 'the holder, no caller' },
  { pattern: /\b(?:he|him|his|himself)\b/g, instead: 'it, the engine, the user' },
  { pattern: /\b(?:goes|go|gone|going|went) on with\b/gi, instead: 'resumes, continues' },
  { pattern: /\bunder way\b/gi, instead: 'in progress, in flight' },
  { pattern: /\bso (?:often|many times)\b/gi, instead: 'at most N times' },
  { pattern: /\b(?:patience|surroundings|afterglow)\b/gi, instead: 'timeout, context' },
]

const comment = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm
/** Strings; a comment is matched too, so that its apostrophes begin none. */
const string = new RegExp(
  `${comment.source}|'(?:[^'\\\\\\n]|\\\\.)*'|"(?:[^"\\\\\\n]|\\\\.)*"|\`(?:[^\`\\\\]|\\\\.)*\``,
  'gm',
)

/** Errors, logs and help: strings of at least four words in folders whose texts reach users. */
const hasTextsForUsers = /^(?:control-plane|engine|ftp|shared)\//
const isText = (literal: string): boolean => literal.split(/\s+/).length >= 4

/** What people read in a source: its comments, and the texts for users. */
function sentencesOf(file: string, source: string): string {
  const comments = source.match(comment) ?? []
  if (!hasTextsForUsers.test(file)) return comments.join('\n')
  const literals = (source.match(string) ?? []).filter((match) => /^['"`]/.test(match) && isText(match))
  return [...comments, ...literals].join('\n')
}

t.test('sentences are read in comments and in texts for users', async (t) => {
  const source = [
    `const a = 'three words only' // the first comment`,
    `throw new Error("it isn't a comment, but a text", \`of \${a} and of others\`) /* the second`,
    `comment */`,
  ].join('\n')
  const comments = ['// the first comment', '/* the second\ncomment */']
  t.equal(sentencesOf('test/a.ts', source), comments.join('\n'))
  const texts = [`"it isn't a comment, but a text"`, '`of ${a} and of others`']
  t.equal(sentencesOf('engine/a.ts', source), [...comments, ...texts].join('\n'))
})

t.test('names and sentences have the words of the field', async (t) => {
  const files = await Array.fromAsync(
    glob(['{bench,control-plane,docs,engine,ftp,shared,test}/**/*.{ts,md}', '*.md'], { cwd: root }),
  )
  t.ok(files.length > 700, 'all sources and pages are read')
  const found: string[] = []
  for (const file of files.filter((name) => name !== 'test/unit/words.test.ts')) {
    const text = await readFile(path.join(root, file), 'utf8')
    const isPage = file.endsWith('.md')
    const sentences = isPage ? text : sentencesOf(file, text)
    for (const { pattern, instead } of isPage ? [] : inNames)
      for (const [word] of text.matchAll(pattern)) found.push(`${file}: ${word}; write ${instead}`)
    for (const { pattern, instead } of inSentences)
      for (const [word] of sentences.matchAll(pattern)) found.push(`${file}: "${word}"; write ${instead}`)
  }
  t.same(found, [])
})
