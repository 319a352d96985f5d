import t from 'tap'
import { findNonTable } from '../../../shared/csv/no-table.ts'

const html = 'an HTML page'
const xml = 'an XML document'

/** Whole documents and beginnings of longer ones, as servers and programs write them. */
const markup: [kind: string, text: string][] = [
  [html, '<!DOCTYPE html>\n<link rel="stylesheet" href="a.css">\n<p class=note>Please sign in'],
  [html, '<!doctype HTML PUBLIC "-//W3C//DTD HTML 4.01//EN">\n<p class=note>Please sign in'],
  [html, '<!DOCTYPE  html  SYSTEM "about:legacy-compat">\n<p class=note>Please sign in'],
  [html, '<!DOCTYPE\n\thtml>\n<p class=note>Please sign in'],
  [html, '<!-- a -->\n\n<!-- b -->\n<!DOCTYPE html>\nPlease sign in'],
  [html, '<HTML><HEAD><TITLE>Sign in'],
  [html, '<html lang="en">\n  <head>\n    <meta charset="utf-8">\n'],
  [html, '<title>Not found</title\n>\n<p>Sorry'],
  [html, '<Title>Not found</TITLE>'],
  [html, '<meta charset="utf-8">\nPlease sign in'],
  [html, '<meta\n  http-equiv="refresh" content="0; url=/login">'],
  [html, '<meta charset = "utf-8">'],
  [html, '<html><body><svg width="1" xmlns="http://www.w3.org/2000/svg"></svg>'],
  [xml, '<?xml version="1.0"?><rows>'],
  [xml, "<?xml  version = '1.0' ?>\n<rows>"],
  [xml, '<?xml\n  version\n="1.0"?>\n<rows>'],
  [xml, '<!DOCTYPE rows SYSTEM "rows.dtd">\n<rows'],
  [xml, '<!DOCTYPE rows[<!ELEMENT rows ANY>]>\n<rows'],
  ['an SVG image', '<svg width="1" xmlns="http://www.w3.org/2000/svg">'],
  ['an SVG image', '<!-- drawn by hand -->\n<svg\n  xmlns="http://www.w3.org/2000/svg">'],
  [
    'an Excel workbook in XML',
    '<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">',
  ],
  [
    'an OpenDocument file in XML',
    '<?xml version="1.0"?><office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0">',
  ],
]

/** The text in each encoding in which a file may be: UTF-8 and UTF-16 in both byte orders, with a mark and without. */
function encodings(text: string): [name: string, bytes: Buffer][] {
  return ['', '\ufeff'].flatMap((mark): [string, Buffer][] => [
    [`UTF-8 ${mark}`, Buffer.from(mark + text)],
    [`UTF-16LE ${mark}`, Buffer.from(mark + text, 'utf16le')],
    [`UTF-16BE ${mark}`, Buffer.from(mark + text, 'utf16le').swap16()],
  ])
}

t.test('markup is named in each encoding, whole or cut', async (t) => {
  for (const [kind, text] of markup)
    for (const [name, bytes] of encodings(text))
      t.match(findNonTable(bytes), new RegExp(`^the file is ${kind}`), `${name} ${JSON.stringify(text)}`)
})

const json: string[] = [
  ...['[]', '{}', '{"email": "ann@example.com"}', '\n [1, 2]\n', '{"a":[1]}\n{"a":[2]}\n', '[1] [2]'],
  // Longer than what is read of it, or cut: an array or object whose end isn't there.
  ...[
    '{"email":"ann@exa',
    '{ "email" : "ann@exa',
    '{\n\t"email"\n\t: [',
    '[{"email":"ann@exa',
    '[\n  {\n    "email" : "a',
  ],
  ...[
    '[["ann@example.com","Ann"],["bob',
    '[\n  [\n    "ann@example.com"  ,\n    "Ann',
    '["ann@example.com"\n,"bob',
  ],
  ...[
    '["",',
    '["a",',
    '["ann@example.com",',
    '["a \\" b",',
    '["a\\\\","b',
    '[["ann@example.com"],["bob@e',
    '[["ann"\n]\n,[',
  ],
  ...[
    '[[1,2],[3',
    '[[17,18],[19',
    '[\n\t[\n\t\t-1.5 ,\n',
    '[ [ 42 ] , [ 43',
    '[[1],',
    '[[1]  ,[2',
    '[[-1],[',
  ],
  ...['{"note": "see {1} or }', '[{"note": "1] a, 2] b'],
]

t.test('JSON is named in each encoding, whole or cut', async (t) => {
  for (const text of json)
    for (const [name, bytes] of encodings(text))
      t.match(findNonTable(bytes), /^the file is JSON/, `${name} ${JSON.stringify(text)}`)
})

/** First headers in brackets, and cells that hold markup or JSON. */
const tables: string[] = [
  ...[
    '[Email]',
    '{Email}',
    '{{email}}',
    '<Email>',
    '[Email',
    '{Email',
    '<Email',
    '[Email]\n[Name]',
    '{Email}\n{Name}',
  ],
  '<Email>,Page\nann@example.com,<?xml version="1.0"?><rows/>',
  '<Email>;Page\nann@example.com;<meta charset="utf-8">',
  '<Email>,Page\nann@example.com,<html><head><title>Hello</title></head></html>',
  '<Email>,Drawing\nann@example.com,<svg xmlns="http://www.w3.org/2000/svg"></svg>',
  '<Email>,Rows\nann@example.com,<rows><row/></rows>',
  '<Email>,Page\nann@example.com,<!DOCTYPE html>',
  '[Email,Tags\nann@example.com,["a","b"]',
  '[Email,Points\nann@example.com,[[1,2]',
  '[Email,Plan\nann@example.com,{"plan":"pro"',
  '{Email,Plan\nann@example.com,{"plan":"pro"',
  'Email,Plan\nann@example.com,{"plan":"pro"}',
  'Email,Plan\nann@example.com,[{"plan":"pro"}',
  '{"plan":"pro"},ann@example.com\n{"plan":"free"},bob@example.com',
  '[1,2];ann@example.com',
  '["a"];ann@example.com',
  '["Email];["Name]\nann@example.com;Ann',
  '["Email" address],[Name]]\nann@example.com;Ann',
  '[[Email],[Name]\nann@example.com,Ann',
  '[[1st],[2nd]\nann@example.com,Ann',
  '[Email] [Name]\nann@example.com',
]

t.test('a table is read though its headers have brackets and its cells hold markup or JSON', async (t) => {
  for (const text of tables)
    for (const [name, bytes] of encodings(text))
      t.equal(findNonTable(bytes), null, `${name} ${JSON.stringify(text)}`)
})
