import { existsSync } from 'node:fs'
import axe, { type AxeResults } from 'axe-core'
import { chromium, type Page } from 'playwright-core'
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
  /** Errors of any page, and requests to others. */
  const problems: string[] = []

  /** A page at the address in a context of its own, signed in by the form. */
  async function open(
    t: Test,
    address: string,
    { key = bootstrapKey, width = 1440, scheme = 'light' }: Opened = {},
  ): Promise<Page> {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme })
    t.teardown(() => context.close())
    context.setDefaultTimeout(20_000)
    context.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    context.on('weberror', (error) => problems.push(String(error.error().stack)))
    context.on('dialog', (dialog) => {
      problems.push(`the dialog ${dialog.message()}`)
      void dialog.dismiss()
    })
    context.on('request', (request) => {
      if (new URL(request.url()).origin !== origin) problems.push(`request to ${request.url()}`)
    })
    const page = await context.newPage()
    await page.goto(origin + address)
    await page.getByLabel('API key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('navigation').waitFor()
    return page
  }
  return { origin, open, problems }
}

/** What axe-core finds serious or critical. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate<AxeResults>('axe.run()')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}
