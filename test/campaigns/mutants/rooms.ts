/** Pure code that is mutated, with the unit tests that belong to it. They need no server. */
export interface Room {
  files: readonly string[]
  tests: readonly string[]
}

const values = [
  'date-time',
  'due-time',
  'identity',
  'field-value',
  'normalized-text',
  'subscriber-transition',
  'text-bytes',
]
const unit = (folder: string, ...names: string[]): string[] =>
  names.map((name) => `test/unit/${folder}/${name}.test.ts`)
const source = (folder: string, ...names: string[]): string[] => names.map((name) => `${folder}/${name}.ts`)
const records = ['record-scanner', 'csv-cells', 'identity-reader', 'file-beginning', 'chunk-records']

export const rooms: Readonly<Record<string, Room>> = {
  values: {
    files: ['shared/values/*.ts', 'shared/csv/csv-line.ts'],
    tests: [...unit('shared/csv', 'csv-line'), ...unit('shared/values', ...values, 'time-zone')],
  },
  rows: {
    files: source('shared/csv', 'row-decision', 'row-fault', 'row-reader'),
    tests: [...unit('shared/csv', 'row-decision', 'row-reader'), ...unit('shared/store', 'value-bytes')],
  },
  formulas: {
    files: [
      'control-plane/resources/autoresponder-statistics/view.ts',
      'control-plane/resources/delivery-events/message-state.ts',
    ],
    tests: unit('control-plane/resources/autoresponder-statistics', 'view'),
  },
  authorization: {
    files: source('control-plane/api', 'authorization'),
    tests: unit('control-plane/api', 'authorization'),
  },
  records: {
    files: source('shared/csv', ...records, 'partition-file'),
    tests: [
      ...unit('shared/csv', ...records.filter((name) => name !== 'csv-cells'), 'partition-file', 'csv-line'),
      ...unit('shared/values', 'identity'),
    ],
  },
  files: {
    files: source('shared/csv', 'character-set', 'transcoder', 'dialect', 'no-table', 'sampled-records'),
    tests: [
      ...unit('shared/csv', 'no-table', 'character-set', 'transcoder', 'dialect', 'file-beginning'),
      ...unit('control-plane/resources/import-inspection', 'header'),
    ],
  },
  containers: {
    files: source('shared/containers', 'container-kind', 'zip', 'zstd-frames'),
    tests: unit('shared/containers', 'unpack', 'zip', 'zstd-frames'),
  },
  splitting: {
    files: [
      ...source('shared/csv', 'file-warnings'),
      ...source('engine/stages/split', 'sampling', 'range-writer', 'record-sorter'),
    ],
    tests: [
      ...unit('shared/csv', 'file-warnings'),
      ...unit('engine/stages/split', 'sampling', 'range-writer', 'record-sorter'),
    ],
  },
}
