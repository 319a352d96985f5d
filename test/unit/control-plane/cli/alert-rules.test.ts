import { spawnSync } from 'node:child_process'
import path from 'node:path'
import t from 'tap'

const program = path.join(import.meta.dirname, '../../../../control-plane/cli/alert-rules.ts')
const rulesWith = (settings: Record<string, string>) =>
  spawnSync(process.execPath, [program], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ...settings },
  })

t.test('alerts name the runbook at the address of RUNBOOK_URL', (t) => {
  const urls = (settings: Record<string, string>) =>
    [...rulesWith(settings).stdout.matchAll(/runbook_url: (.+)#(\w+)$/gm)].map(([, page, alert]) => ({
      page,
      alert,
    }))
  const own = urls({})
  t.ok(own.length > 30 && own.every(({ page }) => page === 'docs/runbook.md'))
  const page = 'https://wiki.example.com/rollcall'
  t.same(
    urls({ RUNBOOK_URL: page }),
    own.map(({ alert }) => ({ page, alert })),
  )
  t.end()
})

t.test('a wrong RUNBOOK_URL is one sentence that names it', (t) => {
  const { status, stdout, stderr } = rulesWith({ RUNBOOK_URL: 'the wiki' })
  t.match({ status, stdout }, { status: 1, stdout: '' })
  t.match(stderr, /^rollcall: setting RUNBOOK_URL [^\n]*"the wiki"\)\n$/)
  t.end()
})
