import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { freePorts } from '../helpers/service.ts'

/** The package as a person installs it: packed, installed elsewhere with the packages that it needs, and used. */
const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')

t.test('npm pack makes a package that runs elsewhere', { timeout: 300_000 }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall package '))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const packed = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root })
  const [{ filename, files }] = JSON.parse(packed.stdout) as [{ filename: string; files: { path: string }[] }]
  const surplus = files.filter((file) => /^(test|bench|\.)/.test(file.path))
  t.same(surplus, [], 'tests and benchmarks stay out')
  await run('npm', [
    ...['install', '--global', '--prefix', folder, '--prefer-offline', '--no-audit', '--no-fund'],
    path.join(folder, filename),
  ])
  const command = path.join(folder, 'bin/rollcall')
  const settings = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    BOOTSTRAP_API_KEY: 'package_key_0123456789',
    ROLLCALL_API_KEY: 'package_key_0123456789',
  }
  const options = { cwd: folder, env: settings }
  t.match(await run(command, ['--version'], options), { stdout: /^1\.\d+\.\d+\n$/, stderr: '' })

  const service = spawn(command, ['start'], {
    cwd: folder,
    env: { ...settings, ...freePorts, DATA_DIR: path.join(folder, 'data'), LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(service, 'exit')
  t.teardown(() => service.kill('SIGKILL'))
  const [line] = (await once(createInterface({ input: service.stdout }), 'line')) as [string]
  const { http } = JSON.parse(line)
  const client = { cwd: folder, env: { ...settings, ROLLCALL_URL: http as string } }
  await run(command, ['list', 'create', '--name', 'News'], client)
  await writeFile(path.join(folder, 'people.csv'), 'email\nann@example.com\n')
  const imported = await run(command, ['import', 'people.csv', '--list', 'News', '--watch'], client)
  t.match(imported.stdout, /^Import 1 is finished: 1 of 1 records/)
  service.kill('SIGTERM')
  t.same((await ended)[0], 0, 'it stops by itself')
})
