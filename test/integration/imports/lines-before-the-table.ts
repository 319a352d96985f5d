import t from 'tap'
import { countsOf, createList, importText, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

/** `csv_skip_lines`: notes and titles before a table (decisions 2.4). */

const { call, post } = service

/** As LinkedIn exports contacts. */
const notes = ['Notes:', '"When exporting your data, some of the addresses are missing."', ''].join('\n')
const table = [
  'First Name,Last Name,URL,Email Address,Company',
  'Ann,Lee,https://social.example/in/ann,ann@example.com,Acme',
  'Bob,May,https://social.example/in/bob,bob@example,Acme',
].join('\n')
const column_mapping = [null, null, null, 'email', null]

const inspect = (listId: number, content: string, file_format: object = {}): Promise<Json> =>
  post(`/mailing_lists/${listId}/subscriber_imports/inspect`, {
    subscriber_import: { file_source: { type: 'json', content }, file_format },
  })

t.test('lines before a table are skipped, counted, and the beginning of the failed log', async (t) => {
  const { id } = await createList(service)
  const file_format = { csv_skip_lines: 3 }
  const view = await importText(service, id, `${notes}\n${table}\n`, { column_mapping, file_format })
  t.match([countsOf(view), view.warnings], [{ added: 1, failed: 1 }, []])
  t.equal(view.file_format.csv_skip_lines, 3)
  const path = `/subscriber_imports/${view.id}/logs/failed?line=true`
  const log = (await call('GET', path)).text
  t.ok(log.startsWith(`${notes}\nFirst Name,Last Name,URL,Email Address,Company,line,error\n`), log)
  t.match(log, /,6,[^\n]*\n$/, 'the line of the file')
  const again = await importText(service, id, log.replace('bob@example,', 'bob@example.com,'), {
    column_mapping: [...column_mapping, null, null],
    file_format,
  })
  t.same(countsOf(again), { added: 1 })
})

t.test('a line that sets the separator comes before them', async (t) => {
  const { id } = await createList(service)
  const content = `sep=;\r\n=1+2;note\r\nemail;x\r\nann@example.com;\r\nbad;\r\n`
  const options = { column_mapping: ['email', null], file_format: { csv_skip_lines: 1 } }
  const view = await importText(service, id, content, options)
  t.match([countsOf(view), view.detected_csv_field_separator], [{ added: 1, failed: 1 }, ';'])
  const path = `/subscriber_imports/${view.id}/logs/failed`
  t.match((await call('GET', path)).text, /^sep=;\n=1\+2;note\r\nemail;x;error\nbad;;/)
  t.match((await call('GET', `${path}?safe=true`)).text, /^sep=;\n'=1\+2;note\nemail;x;error\n/)
})

t.test(
  'the failed log begins with the skipped lines, whatever ends them, also without formulas',
  async (t) => {
    const options = { column_mapping: ['email'], file_format: { csv_skip_lines: 2 } }
    for (const end of ['\n', '\r\n', '\r']) {
      const { id } = await createList(service)
      const lines = ['Contacts', '=1+2', 'email', 'ann@example.com', 'bad', '']
      const view = await importText(service, id, lines.join(end), options)
      t.same(countsOf(view), { added: 1, failed: 1 }, JSON.stringify(end))
      for (const [query, formula] of [
        ['', '=1+2'],
        ['?safe=true', "'=1+2"],
      ] as const) {
        const log = (await call('GET', `/subscriber_imports/${view.id}/logs/failed${query}`)).text
        t.same(
          log.split(/\r\n|\n|\r/).slice(0, 3),
          ['Contacts', formula, 'email,error'],
          JSON.stringify([end, query]),
        )
      }
    }
  },
)

t.test('all lines may be skipped, and lines without an end are refused', async (t) => {
  const { id } = await createList(service)
  const all = await importText(service, id, 'email\nann@example.com', {
    file_format: { csv_skip_lines: 100 },
  })
  t.match([all.state, countsOf(all), all.warnings], ['finished', {}, [/^the file has no record/]])
  const long = await importText(service, id, `${'x'.repeat(70_000)}\nemail\n`, {
    file_format: { csv_skip_lines: 1 },
  })
  t.match(long, {
    state: 'failed',
    error_message: /^csv_skip_lines is 1, and the first 1 lines have more than 64 KiB/,
  })
  for (const csv_skip_lines of [-1, 101, 1.5, '1'])
    t.match(
      (
        await call('POST', `/mailing_lists/${id}/subscriber_imports`, {
          subscriber_import: {
            column_mapping: ['email'],
            file_source: { type: 'json', content: 'x' },
            file_format: { csv_skip_lines },
          },
        })
      ).body,
      { success: false, error_code: 'validation_failed', error_message: /csv_skip_lines/ },
    )
})

t.test('an inspection proposes the lines before the header', async (t) => {
  const { id } = await createList(service)
  t.match(await inspect(id, `${notes}\n${table}\n`), {
    csv_skip_lines: 3,
    csv_has_headers: true,
    column_mapping: [null, null, null, 'email', null],
    records: [
      { record: 1, result: 'added' },
      { record: 2, result: 'failed' },
    ],
  })
  for (const [csv_skip_lines, warnings] of [
    [0, [/^file_format\.csv_skip_lines is 0, and the file looks as if it were 3$/]],
    [1, [/^file_format\.csv_skip_lines is 1, and the file looks as if it were 3$/]],
    // The third line is blank.
    [2, []],
    [3, []],
  ] as const)
    t.match(await inspect(id, `${notes}\n${table}\n`, { csv_skip_lines }), { csv_skip_lines, warnings })
  t.match(await inspect(id, `${table}\n`), { csv_skip_lines: 0 })
  t.match(await inspect(id, `sep=;\nReport;of May\n\nE-Mail;Name\nann@example.com;Ann\n`), {
    csv_skip_lines: 2,
    csv_field_separator: ';',
    records: [{ result: 'added' }],
  })
  for (const [lines, proposed] of [
    [29, 29],
    [30, 0],
  ] as const)
    t.match(
      await inspect(id, `${'note\n'.repeat(lines)}${table}\n`),
      { csv_skip_lines: proposed },
      `${lines} lines`,
    )
  t.match(
    await inspect(id, 'ann@example.com,Ann\nbob@example.com,email\n'),
    { csv_skip_lines: 0 },
    'no header',
  )
})
