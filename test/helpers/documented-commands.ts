import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { searchPath } from './missing-programs.ts'

/** The shell commands of a page of docs. Each of them must be run by a test. */
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

  /** All commands under a heading, in order. */
  under(heading: string): string[] {
    this.#used.add(heading)
    const found = this.#blocks.filter((block) => block.heading === heading)
    if (found.length === 0) throw new Error(`there are no commands under ${JSON.stringify(heading)}`)
    return found.map(({ commands }) => commands)
  }

  /** Headings whose commands no test has asked for. */
  get unused(): string[] {
    return this.#blocks.map(({ heading }) => heading).filter((heading) => !this.#used.has(heading))
  }
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Runs commands in the project's folder, as a reader of the page would. Resolves to what they print, and rejects when
 * one fails.
 */
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
