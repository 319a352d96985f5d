import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { searchPath } from './missing-programs.ts'

/** The shell commands of a page of docs, each of which has its place in a test. */
export class DocumentedCommands {
  readonly #blocks: { heading: string; commands: string }[]
  readonly #used = new Set<string>()

  constructor(page: string) {
    const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8')
    let heading = ''
    this.#blocks = [...text.matchAll(/^#+ (.*)$|^```sh\n([\s\S]*?)^```$/gm)].flatMap(
      ([, title, commands]) => {
        if (title !== undefined) heading = title
        return commands === undefined ? [] : [{ heading, commands }]
      },
    )
  }

  /** All under a heading, in their order. */
  under(heading: string): string[] {
    this.#used.add(heading)
    const found = this.#blocks.filter((block) => block.heading === heading)
    if (found.length === 0) throw new Error(`there are no commands under ${JSON.stringify(heading)}`)
    return found.map(({ commands }) => commands)
  }

  /** Headings whose commands nobody asked for. */
  get unused(): string[] {
    return this.#blocks.map(({ heading }) => heading).filter((heading) => !this.#used.has(heading))
  }
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Runs commands as somebody would who stands in the project's folder; returns what they print. Throws when one fails. */
export function runCommands(commands: string, environment: Record<string, string>): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-eu', '-c', commands], {
    cwd: root,
    encoding: 'utf8',
    timeout: 120_000,
    env: { HOME: process.env['HOME'], PATH: searchPath(), ...environment },
  })
  if (status !== 0) throw new Error(`${commands}\nended with ${status}: ${stderr.slice(-4_000)}`)
  return stdout
}
