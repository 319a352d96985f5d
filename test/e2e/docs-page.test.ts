import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import axe, { type AxeResults } from 'axe-core'
import { chromium, type Page } from 'playwright-core'
import t from 'tap'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { missing } from '../helpers/missing-programs.ts'
import { bootstrapKey, controlPlaneOrigin, startService, until } from '../helpers/service.ts'

/** The documentation in a real browser. */
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((path) => existsSync(path))
if (executablePath === undefined) t.plan(0, 'chromium is not installed')
else {
  const service = await startService(t, ['control-plane'])
  const origin = controlPlaneOrigin(service)
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  t.teardown(() => browser.close())
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
  const problems: string[] = []

  async function open(address: string): Promise<Page> {
    const page = await context.newPage()
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('request', (request) => {
      const isOwn =
        new URL(request.url()).origin === new URL(address).origin || request.url().startsWith('data:')
      if (!isOwn) problems.push(`request to ${request.url()}`)
    })
    await page.goto(address)
    return page
  }

  const all = <T>(page: Page, selector: string, property: string): Promise<T[]> =>
    page.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(selector)})].map((found) => found.${property})`,
    )

  /** Sends a call by "Execute", and resolves to the reply's status as the page shows it. */
  async function tryOut(page: Page): Promise<string> {
    await page.locator('.scheme-container .btn.authorize').click()
    await page.locator('.modal-ux input[name=username]').fill('api')
    await page.locator('.modal-ux input[name=password]').fill(bootstrapKey)
    await page.locator('.modal-ux .auth-btn-wrapper .authorize').click()
    await page.locator('.modal-ux .btn-done').click()
    await page.locator('#operations-tag-Subscriber_imports').click()
    const call = page.locator('#operations-Subscriber_imports-listSubscriberImports')
    await call.locator('.opblock-summary-control').click()
    await call.locator('.btn.execute').click()
    const status = call.locator('.live-responses-table .response .response-col_status')
    return (await status.first().innerText()).trim()
  }

  t.test('a call can be tried out by each name of the service, and behind a proxy', async (t) => {
    const addresses = [origin, origin.replace('127.0.0.1', 'localhost')]
    if (!missing('caddy')) {
      const port = await freePort()
      const caddy = spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', '-'])
      caddy.stdin.end(
        `{\n admin off\n auto_https off\n}\nhttp://localhost:${port} {\n reverse_proxy ${new URL(origin).host}\n}\n`,
      )
      t.teardown(() => caddy.kill('SIGKILL'))
      addresses.push(`http://localhost:${port}`)
      await until(
        'the proxy',
        () =>
          fetch(`http://localhost:${port}/healthz`).then(
            ({ status }) => status,
            () => 0,
          ),
        (status) => status === 200,
      )
    }
    for (const address of addresses) {
      const page = await open(`${address}/docs/`)
      t.match(await tryOut(page), /^200/, address)
      await page.close()
    }
    t.same(problems, [])
  })

  t.test('sections are closed and begin with imports, of which each source has an example', async (t) => {
    const page = await open(`${origin}/docs`)
    t.equal(page.url(), `${origin}/docs/`)
    t.equal(await page.title(), 'API · Rollcall')
    await page.locator('.opblock-tag').last().waitFor()
    const sections = await all<string>(page, '.opblock-tag', 'id')
    t.match(sections[0], 'operations-tag-Subscriber_imports')
    t.equal(await page.locator('.opblock').count(), 0)
    const widths = await all<number>(page, '.opblock-tag', 'offsetWidth')
    t.ok(Math.min(...widths) > 1200, `the sections are as wide as the page: ${widths.join()}`)
    await page.locator('#operations-tag-Subscriber_imports').click()
    const creation = page.locator('#operations-Subscriber_imports-createSubscriberImport')
    await creation.locator('.opblock-summary-control').click()
    const names = await creation
      .locator('.opblock-section-request-body .examples-select option')
      .allInnerTexts()
    t.same(names, ['a file of the upload directory', 'a file at a URL', 'rows in the request'])
    await page.close()
  })

  t.test('the pages fit a phone, lead to each other, and are accessible', async (t) => {
    const phone = await browser.newContext({ viewport: { width: 390, height: 844 } })
    t.teardown(() => phone.close())
    const page = await phone.newPage()
    await page.goto(`${origin}/docs/`)
    const addresses = await all<string>(page, 'nav a', 'href')
    t.ok(addresses.length >= 5)
    await page.goto(`${origin}/docs/uploads/`)
    t.equal(page.url(), `${origin}/docs/uploads`, 'links are relative to an address without a slash')
    for (const address of addresses) {
      await page.goto(address)
      await page.locator('h1, h2').first().waitFor()
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      t.ok(width <= 390, `${address} is ${width} pixels wide`)
      await page.evaluate(axe.source)
      // What the renderer of the API makes is its own.
      const { violations } = await page.evaluate<AxeResults>("axe.run({ exclude: ['#swagger-ui > *'] })")
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      t.same(
        serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
        [],
        address,
      )
      if (address.endsWith('/docs/')) {
        await page.locator('.opblock-tag').last().waitFor()
        const narrow = await all<number>(page, '.opblock-tag > small', 'offsetWidth')
        t.ok(narrow.length > 0 && Math.min(...narrow) > 200, `descriptions of sections: ${narrow.join()}`)
        continue
      }
      for (const anchor of await all<string>(page, 'main a[href^="#"]', 'hash'))
        t.equal(await page.locator(`[id="${anchor.slice(1)}"]`).count(), 1, `${address}${anchor}`)
    }
  })
}
