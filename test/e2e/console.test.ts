import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { chromium, type Page } from 'playwright-core'
import t from 'tap'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { accessibilityFaults, chromiumPath, consoleBrowser, signIn } from '../helpers/console-browser.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { lockRow } from '../helpers/locked-row.ts'
import { present } from '../helpers/present.ts'
import {
  bootstrapKey,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/** The console in a real browser, against a real service: what a person does from the sign-in to the mended rows. */
if (chromiumPath === undefined) t.plan(0, 'chromium is not installed')
else {
  // No other program is given this port while the control plane starts again.
  const HTTP_PORT = String(await freePort())
  const service = await startService(t, ['control-plane', 'engine'], {
    HTTP_PORT,
    AUTH_FAILURES_PER_MINUTE: '20',
  })
  const { origin, newContext, open, problems, provoked } = await consoleBrowser(t, service)
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-console-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))

  const heading = (page: Page, name: string | RegExp) =>
    page.getByRole('heading', { level: 1, name }).waitFor()
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
  const idIn = (page: Page): number => Number(/(\d+)(?:\?.*)?$/.exec(page.url())?.[1])

  const focusedText = '(document.activeElement.closest("label") ?? document.activeElement).textContent.trim()'

  async function csvFile(name: string, text: string | Buffer): Promise<string> {
    const file = path.join(folder, name)
    await writeFile(file, text)
    return file
  }

  /** Chooses a file and waits until its columns are shown. */
  async function choose(page: Page, file: string): Promise<void> {
    await page.getByLabel('Choose a file').setInputFiles(file)
    await page.getByRole('table', { name: 'Columns' }).waitFor()
  }

  /** Presses `Import`, and resolves to the finished import. */
  async function importNow(page: Page): Promise<Json> {
    await button(page, 'Import').click()
    await page.waitForURL(/\/console\/imports\/\d+$/)
    return importEnd(service, idIn(page))
  }

  /** A file is dropped on the page as from a folder. */
  async function drop(page: Page, name: string, text: string): Promise<void> {
    const transfer = await page.evaluateHandle(`{
      const data = new DataTransfer()
      data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}))
      data
    }`)
    await page.getByRole('navigation').dispatchEvent('drop', { dataTransfer: transfer })
    await page.getByRole('table', { name: 'Columns' }).waitFor()
  }

  t.test(
    'its files are served without a credential, checked again each time, under a strict policy',
    async (t) => {
      const get = (address: string, headers: Record<string, string> = {}) =>
        fetch(origin + address, { headers, redirect: 'manual' })
      for (const [address, headers] of [
        ['/console', {}],
        ['/', { accept: 'text/html,*/*;q=0.8' }],
      ] as const) {
        const moved = await get(address, headers)
        t.same([moved.status, moved.headers.get('location')], [302, '/console/'], address)
      }
      const about = await get('/', { accept: 'application/json' })
      t.match(about.headers.get('vary'), /Accept/)
      t.match(await about.json(), { name: 'Rollcall', console: '/console' })
      for (const address of [
        '/console/',
        '/console/lists/7',
        '/console/app.ts',
        '/console/packages/preact.js',
      ]) {
        const file = await get(address)
        const tag = present(file.headers.get('etag'), 'the ETag')
        t.same([file.status, file.headers.get('cache-control')], [200, 'no-cache'], address)
        t.equal(file.headers.get('x-frame-options'), 'DENY')
        t.equal(file.headers.get('referrer-policy'), 'no-referrer')
        const policy = present(file.headers.get('content-security-policy'), 'the policy')
        t.match(policy, /default-src 'none'/)
        t.notMatch(policy, /script-src[^;]*unsafe/)
        t.equal((await get(address, { 'if-none-match': tag })).status, 304, address)
      }
      t.match((await get('/console/app.ts')).headers.get('content-type'), /text\/javascript/)
      t.equal((await get('/console/nothing.ts')).status, 404)
      t.equal((await get('/console/packages/react.js')).status, 404)
    },
  )

  t.test('a person signs in at any address, in all tabs, and signs out of all', async (t) => {
    provoked.errors = /401|429/
    const context = await newContext(t)
    const page = await context.newPage()
    await page.goto(`${origin}/console/lists?search=x`)
    await signIn(page, 'wrong')
    await page.getByText('not valid').waitFor()
    t.equal(await page.getByLabel('API key').getAttribute('aria-invalid'), 'true')
    await signIn(page, ` ${bootstrapKey} `)
    await heading(page, 'Mailing lists')
    t.equal(page.url(), `${origin}/console/lists?search=x`)
    t.equal(await page.title(), 'Mailing lists · Rollcall')
    const navigation = page.getByRole('navigation')
    t.same(await navigation.getByRole('link').allInnerTexts(), [
      'Lists',
      'Imports',
      'Uploads',
      'Keys and users',
      'Audit',
    ])
    t.match(await navigation.innerText(), /First key/)
    const other = await context.newPage()
    await other.goto(`${origin}/console/nothing`)
    await heading(other, 'There is no such page')
    t.same(await context.cookies(), [])
    t.equal(await other.evaluate('localStorage.length'), 0)
    // A key that is taken away in mid-work is asked for where the person is.
    const { id, key } = await service.post('/api_keys', { api_key: { name: 'Short-lived' } })
    const third = await newContext(t)
    const losing = await third.newPage()
    await losing.goto(`${origin}/console/lists`)
    await signIn(losing, key)
    await heading(losing, 'Mailing lists')
    await service.call('DELETE', `/api_keys/${id}`)
    await until(
      'the loss of the key',
      () => service.call('GET', '/whoami', undefined, { key }),
      ({ status }) => status === 401,
    )
    await losing.getByLabel('Search').fill('new')
    await losing.getByLabel('API key').waitFor()
    t.match(losing.url(), /\/console\/lists/)
    await signIn(losing)
    await heading(losing, 'Mailing lists')
    await button(page, 'Sign out').click()
    await other.getByLabel('API key').waitFor()
    t.equal(await other.evaluate('sessionStorage.length'), 0)
    const sendWrongKeys = () =>
      until(
        'the refusal of wrong keys',
        () => service.call('GET', '/whoami', undefined, { key: 'wrong' }),
        ({ status }) => status === 429,
      )
    // The minute in which wrong keys count together may end between the last of them and the sign-in.
    await until(
      'a refused sign-in',
      async () => {
        await sendWrongKeys()
        const reply = page.waitForResponse(/\/whoami$/)
        await signIn(page, 'wrong')
        return (await reply).status()
      },
      (status) => status === 429,
    )
    await page.getByText(/wait \d+ s/).waitFor()
    provoked.errors = /^$/
  })

  t.test(
    'a list is made, a file dropped, mapped, checked and imported, and its failed rows are mended',
    async (t) => {
      const page = await open(t, '/console/')
      await button(page, 'New list').click()
      const dialog = page.getByRole('dialog', { name: 'New list' })
      await dialog.getByLabel('Name').fill('Friends <b>&</b>')
      await dialog.getByLabel('Confirmed').check()
      await button(page, 'Create list').click()
      await heading(page, 'Friends <b>&</b>')
      const listId = idIn(page)
      await page.getByRole('link', { name: 'Import a file' }).first().click()
      await heading(page, 'Import into Friends <b>&</b>')
      const people = Array.from({ length: 30 }, (_, i) => `p${i}@example.com,Name ${i},yes`)
      const broken = ['<i>no address</i>,Eve,yes', 'carl@example,Carl,no']
      await drop(page, 'friends.csv', `E-Mail,First name,Newsletter\n${[...people, ...broken].join('\n')}\n`)
      t.equal(await page.getByLabel('Field for column 1').inputValue(), 'field:email')
      t.equal(await page.getByLabel('Field for column 3').inputValue(), 'field:consent')
      await page.getByLabel('Field for column 2').selectOption('New text field')
      await button(page, 'Check without importing').click()
      await page.getByText('32 rows: ').waitFor()
      t.match(await page.locator('.outlook').innerText(), /30 become active; 2 fail/)
      t.equal(
        (await service.get(`/mailing_lists/${listId}/custom_fields`)).length,
        0,
        'a check makes no field',
      )
      await page.getByLabel('Blank cells clear the field').check()
      await page.locator('.outlook').waitFor({ state: 'detached' })
      const imported = await importNow(page)
      t.match(imported, {
        state: 'finished',
        stats: { subscribers: { added: 30, failed: 2 } },
        blank_cells: 'clear',
      })
      t.equal(imported.file_source.filename, 'friends.csv')
      await page.getByRole('table', { name: 'Why rows failed' }).waitFor()
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        button(page, 'Download failed rows').click(),
      ])
      t.equal(download.suggestedFilename(), `friends.csv.${imported.id}.failed.csv`)
      const log = await service.call('GET', `/subscriber_imports/${imported.id}/logs/failed`)
      t.equal(await readFile(await download.path(), 'utf8'), log.text)
      await button(page, 'For a spreadsheet').waitFor()
      const rows = page.getByRole('table', { name: 'Failed rows' })
      t.equal(await rows.locator('i, b').count(), 0, 'cells are text')
      await rows.getByLabel('Line 32, E-Mail').fill('eve@example.com')
      await rows.getByLabel('Line 33, E-Mail').fill('carl@example.com')
      await button(page, 'Import the mended rows').click()
      await page.waitForURL((url) => !url.pathname.endsWith(`/${imported.id}`))
      const mended = await importEnd(service, idIn(page))
      t.match(mended, { state: 'finished', stats: { subscribers: { added: 2, failed: 0 } } })
      const [eve] = await service.get(`/mailing_lists/${listId}/subscribers/eve@example.com`)
      t.match(eve, { status: 'active', custom_fields: { 'First name': { value: 'Eve' } } })
      await page.getByLabel('Find a person').fill('carl@example.com')
      await page.keyboard.press('Enter')
      await page.getByRole('link', { name: 'Friends' }).click()
      await page.getByText('Unsubscribed', { exact: true }).last().waitFor()
    },
  )

  t.test('by keyboard alone a person comes from the sign-in to a finished import', async (t) => {
    const list = await createList(service, [], { name: 'By keyboard' })
    const context = await newContext(t)
    const page = await context.newPage()
    await page.goto(`${origin}/console/lists/${list.id}`)
    await page.locator('input:focus').waitFor()
    await page.keyboard.type(bootstrapKey)
    await page.keyboard.press('Enter')
    await heading(page, /By keyboard/)
    const focused = () => page.evaluate<string>(focusedText)
    /** Tabs on to an element whose text or label begins so. */
    const tabTo = async (name: string) => {
      for (let i = 0; i < 60; i += 1) {
        const text =
          (await focused()) ||
          (await page.evaluate<string>("document.activeElement.getAttribute('aria-label') ?? ''"))
        if (text.startsWith(name)) return
        await page.keyboard.press('Tab')
      }
      throw new Error(`the keyboard doesn't reach ${name}`)
    }
    await tabTo('Import a file')
    await page.keyboard.press('Enter')
    await heading(page, 'Import into By keyboard')
    await page.locator('h1:focus').waitFor()
    const choosing = page.waitForEvent('filechooser')
    await tabTo('Choose a file')
    const file = await csvFile('keys.csv', 'email\na@example.com\nb@example.com\n')
    await page.keyboard.press('Enter')
    await (await choosing).setFiles(file)
    await page.getByRole('table', { name: 'Columns' }).waitFor()
    await tabTo('Subscribed')
    await page.keyboard.press('Space')
    await until('the button', () => button(page, 'Import').isEnabled(), Boolean)
    await tabTo('Import')
    for (let i = 0; i < 5 && (await focused()) !== 'Import'; i += 1) {
      await page.keyboard.press('Tab')
      await tabTo('Import')
    }
    await page.keyboard.press('Enter')
    await page.waitForURL(/imports\/\d+$/)
    t.match(await importEnd(service, idIn(page)), { stats: { subscribers: { added: 2 } } })
  })

  t.test('a URL is imported; an import is paused, resumed, and cancelled after a question', async (t) => {
    const files = createServer((_request, response) => response.end('email;age\nu1@example.com;5\n'))
    await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve))
    t.teardown(() => files.close())
    const list = await createList(service, [], { name: 'From a URL' })
    const page = await open(t, `/console/lists/${list.id}/import`)
    await button(page, 'From a URL').click()
    await page.getByLabel('URL', { exact: true }).fill(`http://127.0.0.1:${listeningPort(files)}/people.csv`)
    await button(page, 'Use this URL').click()
    await page.getByLabel('Field for column 2').waitFor()
    await page.getByLabel('Unsubscribed', { exact: true }).check()
    await page.getByLabel('Begin later').fill('2037-05-01T12:30')
    await button(page, 'Import').click()
    await page.waitForURL(/imports\/\d+$/)
    await page.getByText('It begins at').waitFor()
    await button(page, 'Pause').click()
    await page.getByText('First key paused it').waitFor()
    await button(page, 'Resume').click()
    await page.getByText('It begins at').waitFor()
    await button(page, 'Cancel').click()
    const question = page.getByRole('dialog', { name: /^Cancel import \d+\?$/ })
    await until(
      'the focus',
      () => page.evaluate('document.activeElement.textContent'),
      (text) => text === 'Keep',
    )
    await page.keyboard.press('Escape')
    await question.waitFor({ state: 'detached' })
    t.match(await service.get(`/subscriber_imports/${idIn(page)}`), {
      state: 'scheduled',
      subscriber_defaults: { status: 'unsubscribed' },
    })
    await button(page, 'Cancel').click()
    await button(page, 'Cancel import').click()
    await page.getByText('Cancelled', { exact: true }).waitFor()
    t.match(await service.get(`/subscriber_imports/${idIn(page)}`), {
      state: 'cancelled',
      cancelled_by: { by: 'api' },
    })
  })

  t.test('an upload of 30 MB goes on after a lost connection, and goes with its import', async (t) => {
    const list = await createList(service, [], { name: 'Thirty megabytes' })
    const page = await open(t, `/console/lists/${list.id}/import`)
    const note = 'n'.repeat(900)
    const rows = Array.from({ length: 33_000 }, (_, i) => `big${i}@example.com,${note}\n`)
    const file = await csvFile('big.csv', `email,note\n${rows.join('')}`)
    let pieces = 0
    provoked.errors = /ERR_INTERNET_DISCONNECTED|ERR_FAILED/
    await page.route('**/uploads/*', async (route) => {
      if (route.request().method() === 'PUT') pieces += 1
      if (pieces === 3) await page.context().setOffline(true)
      await route.continue()
    })
    await choose(page, file)
    await page.getByLabel('Subscribed', { exact: true }).check()
    await page.getByText('was interrupted').waitFor()
    await page.getByRole('alert').waitFor()
    await page.context().setOffline(false)
    const imported = await importNow(page)
    provoked.errors = /^$/
    t.ok(pieces > 3)
    t.match(imported, {
      state: 'finished',
      stats: { subscribers: { added: 33_000 } },
      file_source: { filename: 'big.csv' },
    })
    await until(
      'an empty upload directory',
      () => service.get('/uploads'),
      (uploads: Json[]) => uploads.length === 0,
    )
  })

  t.test('leaving asks, and what was uploaded for nothing goes', async (t) => {
    const list = await createList(service, [], { name: 'Left' })
    const page = await open(t, `/console/lists/${list.id}/import`)
    const text =
      'email,note\n' +
      Array.from({ length: 40_000 }, (_, i) => `l${i}@example.com,${'x'.repeat(30)}\n`).join('')
    await choose(page, await csvFile('left.csv', text))
    await page.getByText('Uploaded').waitFor()
    t.equal((await service.get('/uploads')).length, 1)
    await page.getByRole('link', { name: 'Imports' }).click()
    await page.getByRole('dialog', { name: 'Leave this page?' }).waitFor()
    await page.keyboard.press('Escape')
    t.equal(page.url(), `${origin}/console/lists/${list.id}/import`)
    await page.getByRole('link', { name: 'Imports' }).click()
    await button(page, 'Leave page').click()
    await heading(page, 'Imports')
    const untilEmpty = () =>
      until(
        'an empty upload directory',
        () => service.get('/uploads'),
        (uploads: Json[]) => uploads.length === 0,
      )
    await untilEmpty()
    const waysOut = [
      () => page.goto(`${origin}/console/imports`),
      async () => {
        await button(page, 'Sign out').click()
        await button(page, 'Leave page').click()
      },
    ]
    for (const leave of waysOut) {
      await page.goto(`${origin}/console/lists/${list.id}/import`)
      await choose(page, path.join(folder, 'left.csv'))
      await page.getByText('Uploaded').waitFor()
      t.equal((await service.get('/uploads')).length, 1)
      await leave()
      await untilEmpty()
    }
  })

  t.test('what is no table is refused with what to do, and the next file is looked at anew', async (t) => {
    const list = await createList(service, [], { name: 'Refusals' })
    const page = await open(t, `/console/lists/${list.id}/import`)
    const pdf = await csvFile('list.pdf', Buffer.concat([Buffer.from('%PDF-1.7\n'), Buffer.alloc(2_000, 0)]))
    await page.getByLabel('Choose a file').setInputFiles(pdf)
    await page.getByText(/PDF/).last().waitFor()
    await until(
      'an empty upload directory',
      () => service.get('/uploads'),
      (uploads: Json[]) => uploads.length === 0,
    )
    const latin = await csvFile('latin.csv', Buffer.from('E-Mail;Ort\nk@example.com;Köln\n', 'latin1'))
    await page.getByLabel('Choose a file').setInputFiles(latin)
    await page.getByRole('cell', { name: 'Köln' }).waitFor()
    t.match(await page.getByLabel('Character set').locator('option').first().innerText(), /windows-1252/)
    await page.getByLabel('First line is a header').uncheck()
    await page.getByRole('cell', { name: 'Ort' }).waitFor()
    t.match(await page.getByLabel('Separator').locator('option').first().innerText(), /semicolon/)

    provoked.errors = /400|507/
    await page.getByLabel('Subscribed', { exact: true }).check()
    await page.getByLabel('Lines to skip').fill('500')
    await page.keyboard.press('Tab')
    await page.getByText('must be at most 100').waitFor()
    t.ok(await button(page, 'Import').isDisabled())
    await page.getByLabel('Lines to skip').fill('0')
    await page.keyboard.press('Tab')
    await until('the button', () => button(page, 'Import').isEnabled(), Boolean)

    await page.route('**/uploads/*', async (route) => {
      const error_message = 'the upload directory is full'
      if (route.request().method() === 'PUT')
        await route.fulfill({ status: 507, json: { success: false, error_code: 'full', error_message } })
      else await route.fulfill({ json: { success: true, data: null } })
    })
    const refused = page.getByText('The upload directory is full')
    await page.route('**/inspect', async (route) => {
      await refused.waitFor()
      await route.continue()
    })
    const inspected = page.waitForEvent('requestfinished', {
      predicate: (sent) => /inspect/.test(sent.url()),
      timeout: 3_000,
    })
    await page
      .getByLabel('Choose a file')
      .setInputFiles(await csvFile('large.csv', `email\n${'a@example.com\n'.repeat(100_000)}`))
    await refused.waitFor()
    await inspected.catch(() => undefined)
    t.equal(await button(page, 'Import').count(), 0, 'the beginning of a file is no import')
    provoked.errors = /^$/
  })

  t.test(
    'the settings of last week are proposed and dropped by one click, and a mass deactivation is asked for',
    async (t) => {
      const list = await createList(service, [{ name: 'Town', field_type: 'text' }], { name: 'Weekly' })
      const week = (from: number, to: number) =>
        `Adresse,Ort\n${Array.from({ length: to - from }, (_, i) => `w${from + i}@example.com,T\n`).join('')}`
      await importText(service, list.id, week(0, 10), { column_mapping: ['email', 'Town'], overwrite: true })
      const page = await open(t, `/console/lists/${list.id}/import`)
      await choose(page, await csvFile('week.csv', week(8, 12)))
      await page.getByText('The columns and options are those of').waitFor()
      t.equal(await page.getByLabel('Field for column 2').inputValue(), 'field:Town')
      t.ok(await page.getByLabel('Overwrite existing subscribers').isChecked())
      await button(page, 'Start afresh').click()
      await until(
        'the defaults',
        () => page.getByLabel('Overwrite existing subscribers').isChecked(),
        (is) => !is,
      )
      await page.getByLabel('Subscribed', { exact: true }).check()
      await page.getByLabel('Deactivate subscribers not in the file').check()
      await button(page, 'Check without importing').click()
      await page.getByText('2 are there already and stay').waitFor()
      t.match(
        await page.locator('.outlook').innerText(),
        '4 rows: 2 become active; 2 are there already and stay; 8 are deactivated',
      )
      await button(page, 'Import').click()
      const question = page.getByRole('dialog', { name: 'Deactivate 8 of 10 active subscribers?' })
      await question.waitFor()
      await page.keyboard.press('Escape')
      t.match(page.url(), /\/import$/)
      await page.getByLabel('Deactivate subscribers not in the file').uncheck()
      t.match(await importNow(page), {
        stats: { subscribers: { added: 2, skipped_overwrite: 2, deactivated: 0 } },
      })
      await page.getByText('2 are on the list already and were left as they are').waitFor()
      await page.getByRole('link', { name: 'Import again and overwrite' }).click()
      await choose(page, path.join(folder, 'week.csv'))
      t.ok(await page.getByLabel('Overwrite existing subscribers').isChecked())
    },
  )

  t.test('an import is watched live, also through the loss of the server', async (t) => {
    const list = await createList(service, [], { name: 'Watched' })
    const rows = Array.from({ length: 600_000 }, (_, i) => `${i}@example.com\n`).join('')
    // It ends after the server is back, however slow the browser is.
    const letGo = await lockRow(service, `${list.id}:599999@example.com`)
    const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_format: { csv_has_headers: false },
        begins_at: new Date(Date.now() + 4_000).toISOString(),
        file_source: { type: 'json', content: rows, display_name: 'watched.csv' },
      },
    })
    provoked.errors = /ERR_|503/
    const page = await open(t, `/console/imports/${created.id}`)
    await page.getByRole('progressbar').waitFor()
    await until(
      'the title',
      () => page.title(),
      (title) => /^\d+ % · watched\.csv$/.test(title),
    )
    await page.getByRole('img', { name: /^Rows a second: now / }).waitFor()
    await present(service.processes['control-plane'], 'the control plane').stop('SIGKILL')
    await page.getByRole('alert').waitFor()
    await service.start('control-plane')
    await letGo()
    await page.getByText('Finished', { exact: true }).waitFor({ timeout: 90_000 })
    await page.getByRole('alert').waitFor({ state: 'detached' })
    await page.getByRole('img', { name: 'Rows by outcome: 600,000 added' }).waitFor()
    provoked.errors = /^$/
  })

  t.test('every page is accessible, fits a phone and can be loaded again, in light and dark', async (t) => {
    const list = await createList(service, [{ name: '<img src=x onerror=alert(1)>', field_type: 'number' }], {
      name: 'Ein Name ohne Ende <script>alert(1)</script> קבוצה Donaudampfschifffahrtsgesellschaftskapitän',
    })
    const content = 'email,<u>n</u>\na@example.com,1\nb@example.com,"<img src=x onerror=alert(1)>"\n'
    const done = await importText(service, list.id, content, {
      column_mapping: ['email', '<img src=x onerror=alert(1)>'],
    })
    const addresses = {
      '/console/lists': 'Mailing lists',
      [`/console/lists/${list.id}?email=a%40example.com`]: list.name,
      [`/console/lists/${list.id}/import?like=${done.id}`]: `Import into ${list.name}`,
      [`/console/imports/${done.id}`]: `Import ${done.id}`,
      '/console/people': 'Find a person',
      '/console/people?email=a%40example.com': 'Find a person',
      '/console/nothing': 'There is no such page',
    }
    const file = await csvFile('a.csv', content)
    for (const width of [1440, 390])
      for (const scheme of ['light', 'dark'] as const) {
        const page = await open(t, '/console/', { width, scheme })
        for (const [address, name] of Object.entries(addresses)) {
          await page.goto(origin + address)
          await heading(page, name)
          t.equal(await page.title(), `${name} · Rollcall`)
          if (address.includes('/import?')) await choose(page, file)
          await page
            .getByText(/^Loading/)
            .first()
            .waitFor({ state: 'detached' })
          const wide = await page.evaluate<number>('document.documentElement.scrollWidth')
          t.ok(wide <= width, `${address} is ${wide} pixels wide`)
          t.equal(await page.locator('h1').count(), 1)
          t.same(await accessibilityFaults(page), [], `${address} ${width} ${scheme}`)
        }
        t.equal(await page.locator('main img, main script, main u').count(), 0)
      }
  })

  t.test('it works over plain HTTP by the name of another machine, where no context is secure', async (t) => {
    const browser = await chromium.launch({
      executablePath: chromiumPath!,
      args: ['--no-sandbox', '--host-resolver-rules=MAP rollcall.test 127.0.0.1'],
    })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    const messages: string[] = []
    page.on('console', (message) => messages.push(message.text()))
    const address = `http://rollcall.test:${new URL(origin).port}/console`
    await page.goto(`${address}/lists`)
    await signIn(page)
    await heading(page, 'Mailing lists')
    t.equal(await page.evaluate('isSecureContext'), false)
    const list = await createList(service, [], { name: 'No secure context' })
    await page.goto(`${address}/lists/${list.id}/import`)
    await choose(page, await csvFile('latin.csv', Buffer.from('email;Ort\nk@example.com;Köln\n', 'latin1')))
    await page.getByLabel('Subscribed', { exact: true }).check()
    t.match(await importNow(page), { state: 'finished', stats: { subscribers: { added: 1 } } })
    t.same(messages, [])
  })

  t.test('no page had an error, asked another host, or showed the key in an address', async (t) => {
    t.same(problems, [])
  })
}
