import { existsSync } from 'node:fs'
import axe, { type AxeResults } from 'axe-core'
import { chromium, type BrowserContext, type Page } from 'playwright-core'
import type { Test } from 'tap'
import { bootstrapKey, controlPlaneOrigin, type Service } from './service.ts'

/** The console in Chromium. */

export const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((file) =>
  existsSync(file),
)

interface Opened {
  key?: string
  width?: number
  scheme?: 'light' | 'dark'
}

export async function consoleBrowser(t: Test, service: Service) {
  const origin = controlPlaneOrigin(service)
  const browser = await chromium.launch({
    executablePath: chromiumPath!,
    args: ['--no-sandbox', '--enable-precise-memory-info'],
  })
  t.teardown(() => browser.close())
  /** Errors of any page, requests to others, and addresses with the key. */
  const problems: string[] = []
  /** The errors that a test means to have, such as those of a lost connection. */
  const provoked = { errors: /^$/ }

  async function newContext(
    t: Test,
    { width = 1440, scheme = 'light' }: Opened = {},
  ): Promise<BrowserContext> {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme })
    t.teardown(() => context.close())
    context.setDefaultTimeout(60_000)
    context.on('console', (message) => {
      if (message.type() === 'error' && !provoked.errors.test(message.text())) problems.push(message.text())
    })
    context.on('weberror', (error) => problems.push(String(error.error().stack)))
    context.on('dialog', (dialog) => {
      // Of a page that is left in mid-work.
      const isLeaving = dialog.type() === 'beforeunload'
      if (!isLeaving) problems.push(`the dialog ${dialog.message()}`)
      void (isLeaving ? dialog.accept() : dialog.dismiss())
    })
    context.on('request', (request) => {
      const url = request.url()
      if (!url.startsWith('blob:') && new URL(url).origin !== origin) problems.push(`request to ${url}`)
      if (url.includes(bootstrapKey)) problems.push(`the key in ${url}`)
    })
    return context
  }

  /** A page at the address in a context of its own, signed in by the form. */
  async function open(t: Test, address: string, options: Opened = {}): Promise<Page> {
    const context = await newContext(t, options)
    const page = await context.newPage()
    await page.goto(origin + address)
    await signIn(page, options.key)
    await page.getByRole('navigation').waitFor()
    return page
  }

  return { origin, newContext, open, problems, provoked }
}

export async function signIn(page: Page, key = bootstrapKey): Promise<void> {
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** What axe-core finds serious or critical. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate<AxeResults>('axe.run()')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}
