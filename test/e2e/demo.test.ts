import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { programSearchPath } from '../../shared/runtime/config.ts'

const main = fileURLToPath(new URL('../../bench/demo/main.ts', import.meta.url))

/** Runs the demo; `onOutput` gets all that it has printed so far. */
async function demo(args: string[], onOutput: (text: string, kill: () => void) => void = () => undefined) {
  // The demo has a process group of its own, as in a shell: Ctrl-C in a terminal signals the whole group.
  const child = spawn(process.execPath, [main, ...args], {
    env: {
      PATH: programSearchPath(),
      HOME: process.env['HOME'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let text = ''
  const take = (piece: Buffer) => {
    text += piece.toString()
    onOutput(text, () => process.kill(-child.pid!, 'SIGINT'))
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  const folder = /^Starting Rollcall in (.+)$/m.exec(text)?.[1]
  return { code, text, folder: folder! }
}

function processesOf(folder: string): string {
  return execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(path.basename(folder)))
    .join('\n')
}

t.test('the demo imports through three doors, compares the counts, and cleans up after Ctrl-C', async (t) => {
  let isInterrupted = false
  const { code, text, folder } = await demo(['--rows', '2000', '--keep'], (soFar, interrupt) => {
    if (isInterrupted || !soFar.includes('stays up')) return
    isInterrupted = true
    interrupt()
  })
  t.ok(isInterrupted, 'with --keep it stays up until then')
  t.equal(code, 0, text)
  t.match(text, /^ +inline +FTP +URL +expected$/m)
  t.match(text, /^skipped_duplicate +(\d+) +\1 +\1 +\1$/m)
  t.match(text, /All three are equal, and equal to what the generator knows/)
  for (const what of ['Console', 'API', 'Docs', 'FTP', 'Metrics', 'MongoDB', 'Log'])
    t.match(text, new RegExp(`^${what} `, 'm'))
  t.notOk(existsSync(folder))
  t.equal(processesOf(folder), '')
})

t.test('Ctrl-C in the middle of it leaves nothing behind', async (t) => {
  let isInterrupted = false
  const { code, folder, text } = await demo(['--rows', '30000'], (soFar, interrupt) => {
    if (isInterrupted || !/^inline: /m.test(soFar)) return
    isInterrupted = true
    // Whenever that is, there are three imports to come.
    setTimeout(interrupt, 500)
  })
  t.ok(isInterrupted, text)
  t.equal(code, 130)
  t.notOk(existsSync(folder))
  t.equal(processesOf(folder), '')
})
