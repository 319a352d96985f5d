import t from 'tap'
import { inCommandTerms } from '../../../control-plane/cli/command-terms.ts'
import { findNonTable } from '../../../shared/csv/no-table.ts'

const messages: [message: string, said: string][] = [
  [
    "file_source.filename can't be read: the file is a PDF document",
    "can't import it: the file is a PDF document",
  ],
  ['file_source.content must not be blank', 'the file must not be blank'],
  ["file_source.url can't be read: it has no answer", "the URL can't be read: it has no answer"],
  [
    'column_mapping must hold email: no such column was recognized, so give a column_mapping',
    'no column is mapped to email: no such column was recognized',
  ],
  [
    '2 of its first 2 values are not an integer; give a column_mapping to import it anyway',
    '2 of its first 2 values are not an integer; with --map it is imported anyway, and such rows fail',
  ],
  [
    'default_custom_fields.Foo is no custom field of the list',
    '--default-field Foo is no custom field of the list',
  ],
  ['autoresponders.api.trigger_new "Nix" is unknown', '--autoresponder-new "Nix" is unknown'],
  ['callback_url must be a URL', '--callback-url must be a URL'],
  ['scope must be one of "active"', '--scope must be one of "active"'],
  ['column_mapping.1 "x" is unknown', 'column 2: "x" is unknown'],
]

t.test("the service's messages are said in the terms of the command line", async (t) => {
  for (const [message, said] of messages) t.equal(inCommandTerms(message), said)
})

t.test('an HTML page is refused with one sentence, which the command line prints on one line', async (t) => {
  const problem = findNonTable(Buffer.from('<!DOCTYPE html><html><body>Login</body></html>')) ?? ''
  t.match(problem, /an HTML page/)
  t.equal(problem.split('; ').length, 1)
})
