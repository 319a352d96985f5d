import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'

const service = new URL('../../../../shared/runtime/service.ts', import.meta.url).href

t.test('a stop ends the parts one by one, the last one first, as later ones use earlier ones', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-parts-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const program = `
    import { setTimeout as sleep } from 'node:timers/promises'
    import { runProcess } from ${JSON.stringify(service)}
    await runProcess('engine', async (process) => {
      for (const name of ['database', 'uploads', 'server'])
        process.add({ async stop() { await sleep(20); console.log(name) } })
      process.ready({})
    })
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { PATH: process.env['PATH'], DATA_DIR: path.join(folder, 'data') },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  child.stdout.setEncoding('utf8')
  child.stdout.on('data', (text: string) => {
    lines.push(...text.trim().split('\n'))
    if (text.includes('"ready":true')) child.kill('SIGTERM')
  })
  const [code] = await once(child, 'close')
  t.equal(code, 0, 'it ends well')
  t.same(
    lines.filter((line) => !line.startsWith('{')),
    ['server', 'uploads', 'database'],
  )
})
