import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { chromium, type Browser, type Page } from 'playwright-core'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { exitAfter } from '../interrupt.ts'
import { withService, type Service } from '../service.ts'
import { makeConsoleData, type ConsoleData } from './console-data.ts'

/**
 * Makes the README's screenshots of the console, in docs/screenshots. With `--all FOLDER` it takes all pages, in light
 * and dark, 1440 and 390 pixels wide, into that folder.
 */
const { values } = parseArgs({
  options: {
    all: { type: 'string' },
    rows: { type: 'string', default: '200000' },
    browser: { type: 'string', default: '/usr/bin/chromium' },
  },
})
const docsFolder = path.join(import.meta.dirname, '../../docs/screenshots')

await exitAfter('rollcall-screenshots-', (folder) => {
  const key = randomBytes(16).toString('hex')
  const options = { folder, key, settings: { URL_IMPORT_ALLOW: '127.0.0.1', ENGINE_WORKERS: '1' } }
  return withService(options, async (service) => {
    const data = await makeConsoleData(service, Number(values.rows))
    const browser = await chromium.launch({ executablePath: values.browser, args: ['--no-sandbox'] })
    try {
      await (values.all === undefined ? takeBest(browser, service, data) : takeAll(browser, service, data))
    } finally {
      await browser.close()
      data.close()
    }
    return 0
  })
})

interface Shown {
  width: number
  scheme: 'light' | 'dark'
  shows?: (page: Page) => Promise<unknown>
}

/** A page of its own tab, signed in. */
async function open(
  browser: Browser,
  { url, key }: Service,
  address: string,
  { width, scheme, shows }: Shown,
) {
  const context = await browser.newContext({
    ...{
      viewport: { width, height: 900 },
      colorScheme: scheme,
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
    },
  })
  await context.addInitScript({ content: `sessionStorage.setItem('rollcall-api-key', '${key}')` })
  const page = await context.newPage()
  await page.goto(`${url}/console/${address}`)
  await page.locator('h1').waitFor()
  await page.locator('.loading').first().waitFor({ state: 'detached' })
  await shows?.(page)
  return { page, close: () => context.close() }
}

async function take(browser: Browser, service: Service, address: string, file: string, shown: Shown) {
  const { page, close } = await open(browser, service, address, shown)
  await page.screenshot({ path: file, fullPage: values.all !== undefined, animations: 'disabled' })
  await close()
  console.log(file)
}

async function takeBest(browser: Browser, service: Service, { importing, listId }: ConsoleData) {
  await mkdir(docsFolder, { recursive: true })
  const best: [string, string, Shown['shows']?][] = [
    ['an-import', `imports/${importing}`, untilPlotted],
    ['imports', 'imports', untilCounted],
    ['import-form', `lists/${listId}/import`, chooseFile],
  ]
  for (const [name, address, shows] of best)
    await take(browser, service, address, path.join(docsFolder, `${name}.png`), {
      ...{ width: 1280, scheme: 'light' },
      ...(shows === undefined ? {} : { shows }),
    })
}

/** Waits until the plot of rows a second has some points. */
async function untilPlotted(page: Page) {
  await page.getByRole('img', { name: /^Rows a second: now / }).waitFor()
  await page.waitForTimeout(6_000)
}

/** Waits until it is known how many imports run. */
function untilCounted(page: Page): Promise<void> {
  return page.getByRole('button', { name: /^\d+ Running$/ }).waitFor()
}

/** A file in the import form. */
async function chooseFile(page: Page) {
  const bytes = Buffer.concat([...new SubscriberFile({ rows: 2_641, seed: 2 }).bytes()])
  const file = { name: 'newsletter-2026-12.csv', mimeType: 'text/csv', buffer: bytes }
  await page.getByLabel('Choose a file').setInputFiles(file)
  await page.getByRole('table', { name: 'Columns' }).waitFor()
}

async function chooseAndCheck(page: Page) {
  await chooseFile(page)
  await page.getByLabel('Subscribed they agreed to get mail').check()
  await page.getByRole('button', { name: 'Check without importing' }).click()
  await page.getByText(/^2,641 rows: /).waitFor()
}

async function takeAll(browser: Browser, service: Service, data: ConsoleData) {
  const folder = values.all ?? ''
  await mkdir(folder, { recursive: true })
  const { listId, finished, importing, failed, paused } = data
  const pages: [string, string, Shown['shows']?][] = [
    // First, while it runs.
    ['importing', `imports/${importing}`, untilPlotted],
    ['lists', 'lists'],
    ['list', `lists/${listId}`],
    ['import-form', `lists/${listId}/import`, chooseAndCheck],
    ['finished', `imports/${finished}`],
    ['failed', `imports/${failed}`],
    ['paused', `imports/${paused}`],
    ['imports', 'imports', untilCounted],
    ['imports-checks', 'imports?checks=true'],
    ['imports-none', 'imports?state=splitting'],
    ['uploads', 'uploads'],
    ['keys', 'keys'],
    ['new-key', 'keys', (page) => page.getByRole('button', { name: 'New key' }).click()],
    ['revoke', 'keys', (page) => page.getByRole('button', { name: 'Revoke Nightly job' }).click()],
    ['audit', 'audit'],
    ['people', 'people?email=person1@example.com'],
    ['no-page', 'nothing'],
  ]
  for (const [name, address, shows] of pages)
    for (const scheme of ['light', 'dark'] as const)
      for (const width of [1440, 390])
        await take(browser, service, address, path.join(folder, `${name}-${scheme}-${width}.png`), {
          ...{ width, scheme },
          ...(shows === undefined ? {} : { shows }),
        })
}
