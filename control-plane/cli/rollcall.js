#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module from 'node:module'
import { fileURLToPath } from 'node:url'

/**
 * Starts the command line. An older Node.js, which doesn't run TypeScript, hands over to the one that came with the
 * dependencies, passes signals on, and ends as that one ends. In an installed package the dependencies may stand beside it.
 */
const main = new URL('./main.ts', import.meta.url)
const root = new URL('../../', import.meta.url)

if (process.features.typescript) {
  module.enableCompileCache?.(fileURLToPath(new URL('node_modules/.cache/rollcall', root)))
  if (root.pathname.includes('/node_modules/')) await import('../../shared/runtime/strip-types.js')
  await import(main.href)
} else {
  const nodes = ['node_modules/.bin/node', '../.bin/node'].map((path) => fileURLToPath(new URL(path, root)))
  const node = nodes.find((path) => existsSync(path))
  if (node === undefined) {
    console.error(
      `rollcall needs Node.js 22.18 or newer, and this is ${process.version}: install that, or install rollcall with its optional packages, which bring one along`,
    )
    process.exit(1)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A terminal sends Ctrl-C to both, and a second one would end the child at once.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'))
  child.on('error', (error) => {
    console.error(`rollcall couldn't start ${node}: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}
