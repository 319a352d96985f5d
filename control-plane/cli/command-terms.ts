/** Says a message of the service in the terms of the command line: columns counted from 1, and options. */
export const inCommandTerms = (message: string): string => message.split('; ').map(translate).join('; ')

const translate = (sentence: string): string =>
  sentence
    .replace(/^column_mapping\.(\d+) /, (_, index: string) => `column ${Number(index) + 1}: `)
    .replace(/^column_mapping must hold /, 'no column is mapped to ')
    .replace(/^column_mapping has /, 'a column is mapped to ')
    .replace(/^subscriber_defaults has status/, '--default-status is given')
    .replace(/^overwrite is off /, '--overwrite is not given ')
    .replaceAll(/\boverwrite_(what|when_status)\.(\w+)/g, '--overwrite-$1 $2')
    .replaceAll('--overwrite-when_status', '--overwrite-when-status')
    .replace(/(--overwrite-what \w+) is (?:on|(off))\b/, (_, option: string, off?: string) =>
      off === undefined ? `${option} is given` : `${option} is not given`,
    )
    .replaceAll(/\bsubscriber_defaults\.(\w+)/g, '--default-$1')
    .replace('autoresponders.subscription.also_trigger_on_updated_subscribers', '--trigger-on-updated')
    .replace('autoresponders.subscription.trigger', '--trigger-autoresponders')
    .replace(/\bblank_cells\b/, '--blank-cells')
    .replace(/^file_source\.url /, 'the URL ')
    .replace(/^file_source\.(filename|content) can't be read: /, "can't import it: ")
    .replace(/^file_source\.(filename|content) /, 'the file ')
    .replace(/, so give a column_mapping$/, '')
    .replace(
      /^give a column_mapping to import it anyway$/,
      'with --map it is imported anyway, and such rows fail',
    )
    .replace(/^an Authorization header with an API key is required$/, 'there is no API key')
    .replace(/^begins_at /, '--begins-at ')
    .replace(/^default_custom_fields\./, '--default-field ')
    .replace(/\bautoresponders\.api\.trigger_(new|updated)\b/, '--autoresponder-$1')
    .replace(/^callback_url /, '--callback-url ')
    .replace(/^scope /, '--scope ')
    .replace(/"character_set": /, '--character-set ')
    .replace(/ as character_set$/, ' as --character-set')
    .replace(/^file_format\.character_set /, '--character-set ')
    .replace(/^file_format\.date_format /, '--date-format ')
    .replace(/^file_format\.csv_field_enclosure /, '--enclosure ')
    .replace(/^(?:file_format\.)?csv_skip_lines /, '--skip-lines ')
    .replace(/^file_format\.csv_field_escape is (?:null|"\\\\").*/, (differs) =>
      differs.includes(' is null')
        ? '--escape is none, and the file looks as if a backslash escaped its enclosures'
        : '--escape is backslash, and the file looks as if nothing escaped its enclosures',
    )
    .replace(/ with a backslash as csv_field_escape$/, ' with --escape backslash')
    .replace(/^file_format\.csv_field_separator /, '--separator ')
    .replace(/, and csv_field_separator is /, ', and --separator is ')
    .replace(/^is csv_field_separator right/, 'is --separator right')
    .replace(
      /^if the day comes first, set date_format to dmy$/,
      'if the day comes first, give --date-format dmy',
    )
    .replace(/, although date_format is dmy: /, ', although --date-format is dmy: ')
    .replace(/\bdeactivate_subscribers_not_in_import deactivates\b/, '--deactivate-missing deactivates')
    .replace(
      /^file_format\.csv_has_headers is false, .*/,
      'the file seems to have a header, in spite of --no-headers',
    )
    .replace(/, and csv_has_headers is false: /, ', and --no-headers is given: ')
    .replace(/, and csv_has_headers is true: /, ', and --no-headers is not given: ')
