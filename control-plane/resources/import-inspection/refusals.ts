import { invalid } from '../../api/refusal.ts'

const unreadable = (key: string, example: string) =>
  invalid((problem: string) => `file_source.${key} can't be read: ${problem}`, example)

/** A source that no setting makes readable, by its type. The problem is in the words of an import. */
export const unreadableSource = {
  json: unreadable('content', 'the file is empty'),
  upload_directory: unreadable(
    'filename',
    '"subscribers.csv.gz" is cut off: its gzip data has no end; transfer the whole file again',
  ),
  url: unreadable('url', 'http://127.0.0.1:8000/subscribers.csv answered with status 404, expected 200'),
}

export const noTable = unreadable(
  'filename',
  'the file is a PDF document, and imports read tables as text: convert it, save it as CSV UTF-8 and import that file',
)
