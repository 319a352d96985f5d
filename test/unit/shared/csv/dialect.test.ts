import t from 'tap'
import { detectDialect, firstRecords, isEmail, type SampleDialect } from '../../../../shared/csv/dialect.ts'

const whole = (text: string) => ({ bytes: Buffer.from(text), isWhole: true })
const comma: SampleDialect = { separator: ',', enclosure: '"', escape: null }

/** "SEPARATOR ENCLOSURE" of a file's text. */
function detected(text: string, settings: Partial<SampleDialect> = {}): string {
  const { separator, enclosure, escape } = detectDialect(whole(text), {
    separator: settings.separator,
    enclosure: settings.enclosure,
    escape: settings.escape,
  })
  return [separator, enclosure, ...(escape === null ? [] : [escape])].join(' ')
}

t.test('the separator and enclosure are those that make the best table', async (t) => {
  const files: [reason: string, dialect: string, records: string[]][] = [
    ['a file without records has the default', ', "', []],
    ['a single column has the default', ', "', ['Email', 'ann@example.com', 'bob@example.com']],
    ['a comma wins a tie', ', "', ['Name;Town,Country', 'Ann;Rome,Italy', 'Bob;Oslo,Norway']],
    [
      'emails decide where columns are equal',
      '; "',
      ['ann@example.com;Doe, Ann', 'bob@example.com;Hill, Bob'],
    ],
    [
      'emails count more than an equal number of cells',
      '; "',
      [
        'ann@example.com;Doe, Ann',
        'bob@example.com;Hill, Bob;x',
        'eve@example.com;a;b, Eve',
        'x@example.com;a;b;c, d',
      ],
    ],
    [
      'an email may have blanks around it',
      '; "',
      ['Doe, Ann ; ann@example.com ', 'Hill, Bob ; bob@example.com '],
    ],
    [
      'an equal number of cells decides without emails',
      '; "',
      ['Name;Street', 'Ann;Main St 5, rear, left', 'Bob;Hill Rd 7', 'Eve;Low St 1, front'],
    ],
    [
      'the most usual number of cells counts, wherever it comes first',
      '; "',
      ['Name;Town', 'Ann;Rome', 'Bob;Oslo', 'Eve;Bonn;x, y', 'Joe;Lima;x, y', 'Kim'],
    ],
    ['most records are one cell, so that it is no separator', ', "', ['Note', 'Hello', 'Thanks; bye']],
    [
      'the header decides where as many records have its cells as have one',
      '; "',
      ['Email;Name', 'ann@example.com'],
    ],
    ['a first record of one cell decides likewise', ', "', ['Note', 'Thanks; bye']],
    ['enclosed cells decide where all else is equal', "; '", ["'Ann';'Rome'", "'Bob';'Oslo'"]],
    [
      'the number of cells counts more than enclosed ones',
      ', "',
      ["'Ann'|'Rome',x", "'Bob'|'Oslo',x", 'Eve,x'],
    ],
    ['line breaks in enclosed cells', "; '", ["'Ann\nDoe';'Rome'", "'Bob';'Oslo'", "'Eve';'Bonn'"]],
    [
      'an enclosure that encloses no cell is none',
      ', "',
      ['"Big Bob,bob@example.com', "Ann O'Hara,ann@example.com"],
    ],
  ]
  for (const [reason, dialect, records] of files) t.equal(detected(records.join('\n')), dialect, reason)
})

t.test('a backslash escapes where that makes a better table, or a cell is \\N', async (t) => {
  const mysql = ['email,name', '"a@example.com","12\\""', '"b@example.com","the \\"Bay\\""'].join('\n')
  t.equal(detected(mysql), ', " \\')
  t.equal(detected(mysql, { escape: null }), ', "', 'the request decides')
  t.equal(detected('email,name\na@example.com,\\N\nb@example.com,Bob'), ', " \\')
  t.equal(detected('email,path\na@example.com,"C:\\"\nb@example.com,"D:\\"'), ', "', 'paths that end in one')
  t.equal(detected('email,name\na@example.com,A\\B'), ', "')
})

t.test('what the request gives stands, also where another would make a better table', async (t) => {
  const table = ["'Ann',ann@example.com", "'Bob',bob@example.com"].join('\n')
  t.equal(detected(table), ", '")
  t.equal(detected(table, { separator: ';' }), '; "')
  t.equal(detected("'Ann';Rome\n'Bob';Oslo", { separator: ';' }), "; '")
  t.equal(detected(table, { enclosure: '"' }), ', "')
  t.equal(detected(table, { separator: '|', enclosure: '"' }), '| "')
  t.equal(detected('', { separator: '\t', enclosure: "'" }), "\t '")
})

t.test('the first hundred records of the first 128 KiB are read', async (t) => {
  const { cells } = firstRecords(whole('a,b\n'.repeat(150)), comma)
  t.equal(cells.length, 100)

  const long = `${'a'.repeat(1_998)},\n`
  t.equal(long.length, 2_000)
  const ofLong = firstRecords(whole(long.repeat(100)), comma)
  t.same(
    [ofLong.cells.length, ofLong.cells.at(-1)],
    [65, ['a'.repeat(1_998), '']],
    'without the one that is cut',
  )

  const last = 'ann@example.com'
  const exact = `${long.repeat(65)}${'b'.repeat(128 * 1024 - 65 * 2_000 - last.length - 1)}\n${last}`
  t.equal(exact.length, 128 * 1024)
  t.same(firstRecords(whole(exact), comma).cells.at(-1), [last], 'a file that ends there is whole')
  const further = { bytes: Buffer.from(exact), isWhole: false }
  t.equal(
    firstRecords(further, comma).cells.length,
    66,
    'the last record may be longer in a file that goes on',
  )
  t.equal(firstRecords(whole(`${exact}a`), comma).cells.length, 66)
})

t.test('a record that may be cut is read where it is the only one', async (t) => {
  const cut = (text: string) => firstRecords({ bytes: Buffer.from(text), isWhole: false }, comma).cells
  t.same(cut('Email,Na'), [['Email', 'Na']])
  t.same(cut('Email,Name\nann@exam'), [['Email', 'Name']])
  t.same(cut('Email,Name\nann@example.com,Ann\nbob@'), [
    ['Email', 'Name'],
    ['ann@example.com', 'Ann'],
  ])
  t.same(firstRecords(whole('Email,Name\nann@exam'), comma).cells.length, 2)
})

t.test('well-formed enclosed cells are counted by their records', async (t) => {
  const records: [enclosed: number, cells: string[][], text: string][] = [
    [0, [['a', 'b']], 'a,b'],
    [1, [['a', 'b']], '"a","b"'],
    [1, [['a', 'b,c']], 'a,"b,c"'],
    [0, [['"a" x', 'b']], '"a" x,b'],
    [0, [['"a,b']], '"a,b'],
    [0, [['"a","b']], '"a","b'],
    [2, [['a'], ['b'], ['c']], '"a"\nb\n"c"'],
  ]
  for (const [enclosed, cells, text] of records)
    t.same(firstRecords(whole(text), comma), { enclosed, cells }, text)
})

t.test('blanks around an email are no part of it', async (t) => {
  for (const cell of ['ann@example.com', ' ann@example.com', 'ann@example.com\t']) t.ok(isEmail(cell), cell)
  for (const cell of ['', 'ann', 'ann@', 'ann doe@example.com', 'Ann <ann@example.com>'])
    t.notOk(isEmail(cell), cell)
})
