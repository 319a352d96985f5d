import t from 'tap'
import { inCommandTerms } from '../../../../control-plane/cli/command-terms.ts'
import { overQuota } from '../../../../control-plane/resources/uploads/refusals.ts'
import { findNonTable } from '../../../../shared/csv/no-table.ts'

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
  [
    'overwrite is off and no subscriber is updated, so these have no effect: overwrite_when_status.scomp, blank_cells, autoresponders.api.trigger_updated, autoresponders.subscription.also_trigger_on_updated_subscribers',
    '--overwrite is not given and no subscriber is updated, so these have no effect: --overwrite-when-status scomp, --blank-cells, --autoresponder-updated, --trigger-on-updated',
  ],
  [
    'subscriber_defaults has status, and overwrite_what.status is off: only new subscribers get the status of their row',
    '--default-status is given, and --overwrite-what status is not given: only new subscribers get the status of their row',
  ],
  [
    'or else import them in a file of their own with subscriber_defaults.status unsubscribed',
    'or else import them in a file of their own with --default-status unsubscribed',
  ],
  [
    'file_format.date_format has no effect, as neither a column nor a default is a date',
    '--date-format has no effect, as neither a column nor a default is a date',
  ],
  [
    'blank_cells has no effect, as no column is mapped to a custom field',
    '--blank-cells has no effect, as no column is mapped to a custom field',
  ],
  ['callback_url must be a URL', '--callback-url must be a URL'],
  ['scope must be one of "active"', '--scope must be one of "active"'],
  ['column_mapping.1 "x" is unknown', 'column 2: "x" is unknown'],
  [
    'the file has a mark: import it with "character_set": "UTF-16LE", or save it as UTF-8',
    'the file has a mark: import it with --character-set "UTF-16LE", or save it as UTF-8',
  ],
  [
    'it has another one, import it with that as character_set',
    'it has another one, import it with that as --character-set',
  ],
  [
    'file_format.character_set is "gbk", and the file looks as if it were "utf-8"',
    '--character-set is "gbk", and the file looks as if it were "utf-8"',
  ],
  [
    'file_format.csv_field_separator is ",", and the file looks as if it were ";"',
    '--separator is ",", and the file looks as if it were ";"',
  ],
  [
    'file_format.csv_field_enclosure is "\'", and the file looks as if it were "\""',
    '--enclosure is "\'", and the file looks as if it were "\""',
  ],
  [
    'the first line sets the separator ";", and csv_field_separator is ",": records are split at ","',
    'the first line sets the separator ";", and --separator is ",": records are split at ","',
  ],
  [
    'file_format.csv_skip_lines is 0, and the file looks as if it were 3',
    '--skip-lines is 0, and the file looks as if it were 3',
  ],
  [
    'file_format.csv_field_escape is null, and the file looks as if it were "\\\\"',
    '--escape is none, and the file looks as if a backslash escaped its enclosures',
  ],
  [
    'file_format.csv_field_escape is "\\\\", and the file looks as if it were null',
    '--escape is backslash, and the file looks as if nothing escaped its enclosures',
  ],
  [
    'not an email address: ":" and ";" belong to a label or separate cells; is csv_field_separator right?',
    'not an email address: ":" and ";" belong to a label or separate cells; is --separator right?',
  ],
  [
    'not a date such as 2014-12-31 or 12/31/2014; if the day comes first, set date_format to dmy',
    'not a date such as 2014-12-31 or 12/31/2014; if the day comes first, give --date-format dmy',
  ],
  [
    '2 dates have a second part above 12 and were read month first (MM-DD-YYYY), although date_format is dmy: check that the day comes first in the others',
    '2 dates have a second part above 12 and were read month first (MM-DD-YYYY), although --date-format is dmy: check that the day comes first in the others',
  ],
  [
    'deactivate_subscribers_not_in_import deactivates no subscriber, because records of the file may have swallowed others: correct the file and import it again',
    '--deactivate-missing deactivates no subscriber, because records of the file may have swallowed others: correct the file and import it again',
  ],
  [
    'more than half of the 4 active subscribers of the list are not in the file, and deactivate_subscribers_not_in_import deactivates them',
    'more than half of the 4 active subscribers of the list are not in the file, and --deactivate-missing deactivates them',
  ],
  [
    'file_format.csv_has_headers is false, and the file looks as if it were true',
    'the file seems to have a header, in spite of --no-headers',
  ],
  [
    'the first record looks like a header (Mail), and csv_has_headers is false: it is imported as a record',
    'the first record looks like a header (Mail), and --no-headers is given: it is imported as a record',
  ],
]

t.test("the service's messages are said in the terms of the command line", async (t) => {
  for (const [message, said] of messages) t.equal(inCommandTerms(message), said)
})

t.test('a refusal of one sentence is printed on one line', async (t) => {
  const problem = findNonTable(Buffer.from('<!DOCTYPE html><html><body>Login</body></html>')) ?? ''
  t.match(problem, /an HTML page/)
  t.equal(problem.split('; ').length, 1)
  t.equal(overQuota({ UPLOAD_MAX_MB: 1, UPLOAD_MAX_FILES: 1 }).message.split('; ').length, 1)
})
