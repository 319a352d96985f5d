/** Says a message of the service in the terms of the command line: columns counted from 1, and options. */
export const inCommandTerms = (message: string): string => message.split('; ').map(translate).join('; ')

const translate = (sentence: string): string =>
  sentence
    .replace(/^column_mapping\.(\d+) /, (_, index: string) => `column ${Number(index) + 1}: `)
    .replace(/^column_mapping must hold /, 'no column is mapped to ')
    .replace(/^column_mapping has /, 'a column is mapped to ')
    .replace(/^file_source\.url /, 'the URL ')
    .replace(/^begins_at /, '--begins-at ')
