import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import t from 'tap'
import { readCells } from '../../../../shared/csv/csv-cells.ts'
import { withoutFormula, writeLine } from '../../../../shared/csv/csv-line.ts'
import { utf8Format } from '../../../helpers/make-plan.ts'
import { splitFile } from '../../../model/records.ts'

t.test('a written record is read again, cell by cell, as one record', async (t) => {
  const cell = fc
    .array(fc.constantFrom(...`a"',;\t\n\r x`.split(''), '\\', '\\N'), { maxLength: 6 })
    .map((list) => list.join(''))
  fc.assert(
    fc.property(
      fc.array(cell, { minLength: 1, maxLength: 5 }),
      fc.constantFrom(',' as const, ';' as const, '\t' as const),
      fc.constantFrom('"' as const, "'" as const),
      (cells, separator, enclosure) => {
        const strict = { delimiter: separator, quote: enclosure, escape: enclosure, record_delimiter: '\n' }
        const dialect = {
          csv_field_separator: separator,
          csv_field_enclosure: enclosure,
          csv_field_escape: null,
        }
        const escaping = { ...dialect, csv_field_escape: '\\' as const }
        const line = writeLine(cells, dialect)
        const split = (text: string, format: typeof dialect | typeof escaping) =>
          splitFile(text, { ...utf8Format, ...format }).records
        const records = split(line, dialect)
        const escaped = writeLine(cells, escaping)
        const [readEscaped] = split(escaped, escaping)
        return (
          records.length === 1 &&
          JSON.stringify(parse(line, strict)) === JSON.stringify([cells]) &&
          JSON.stringify(records[0]!.cells) === JSON.stringify(cells) &&
          JSON.stringify(readCells(line, dialect)) === JSON.stringify(cells) &&
          JSON.stringify(readEscaped?.cells) === JSON.stringify(cells) &&
          JSON.stringify(readCells(escaped, escaping)) === JSON.stringify(cells)
        )
      },
    ),
    { numRuns: 10_000 },
  )
  t.pass('each line')
})

t.test('enclosures are written only where they are needed', async (t) => {
  const dialect = { csv_field_separator: ',', csv_field_enclosure: '"', csv_field_escape: null } as const
  t.equal(writeLine(['a', '12" pipe', ' b '], dialect), 'a,"12"" pipe"," b "', 'as RFC 4180 has it')
  t.equal(writeLine(['a,b', 'c"d,', '"'], dialect), '"a,b","c""d,",""""')
  t.equal(writeLine(['\ta', 'b\t', ' ', '\t'], dialect), '"\ta","b\t"," ","\t"', 'a blank or a tab at an end')
  t.equal(writeLine(['a b', 'c\td', '\u00a0e\u3000', '\ufefff'], dialect), 'a b,c\td,\u00a0e\u3000,\ufefff')
  t.equal(writeLine(["it's", "'"], { ...dialect, csv_field_enclosure: "'" }), "'it''s',''''")
  t.equal(writeLine(['a', 'b\r', 'c\nd', ' e'], dialect), 'a,"b\r","c\nd"," e"')
  t.equal(writeLine(['', 'a', ''], dialect), ',a,')
  t.equal(writeLine(['\\N', 'a\\b', 'a\\,b'], dialect), '\\N,a\\b,"a\\,b"')
  const escaping = { ...dialect, csv_field_escape: '\\' } as const
  t.equal(writeLine(['\\N', 'a\\b', 'a\\,b'], escaping), '"\\\\N",a\\b,"a\\\\,b"', 'an escape')
})

t.test('no line is blank, as that would be skipped', async (t) => {
  const dialect = { csv_field_separator: '\t', csv_field_enclosure: "'", csv_field_escape: null } as const
  t.equal(writeLine([''], dialect), "''")
  t.equal(writeLine(['', '', ''], dialect), '\t\t', 'tabs that separate are no blank line')
  t.equal(writeLine([' '], dialect), "' '")
  t.equal(writeLine(['', 'a'], dialect), '\ta')
  t.equal(writeLine(['a', ''], dialect), 'a\t')
})

t.test('a cell that a spreadsheet would run gets a quote before it, any other is as it was', async (t) => {
  const cases = ['=1', '+1', '-1', '@a', ' =1', '\u00a0=1', '\t1', '\r=', '\n', '\uff1d1', '\uff201']
  t.strictSame(
    cases.map((cell) => [cell, withoutFormula(cell)]),
    cases.map((cell) => [cell, `'${cell}`]),
  )
  for (const cell of ['', ' ', 'a=1', "'=1", 'a@example.com', '1-2', ' x'])
    t.equal(withoutFormula(cell), cell)
})
