/** Pure code that is mutated, with the unit tests that belong to it. They need no server. */
export interface Room {
  files: readonly string[]
  tests: readonly string[]
}

export const rooms: Readonly<Record<string, Room>> = {
  values: {
    files: ['shared/values/*.ts', 'shared/csv/csv-line.ts'],
    tests: [
      'csv-line',
      'date-time',
      'due-time',
      'email-and-identity',
      'field-value',
      'normalized-text',
      'subscriber-transition',
      'time-zone',
    ].map((name) => `test/unit/values/${name}.test.ts`),
  },
  rows: {
    files: ['shared/csv/row-decision.ts', 'shared/csv/row-fault.ts', 'shared/csv/row-reader.ts'],
    tests: [
      'test/unit/rows/row-decision.test.ts',
      'test/unit/rows/row-reader.test.ts',
      'test/unit/rows/value-bytes.test.ts',
    ],
  },
  formulas: {
    files: [
      'control-plane/resources/autoresponder-statistics/view.ts',
      'control-plane/resources/delivery-events/message-state.ts',
    ],
    tests: ['test/unit/delivery/statistics.test.ts'],
  },
  authorization: {
    files: ['control-plane/api/authorization.ts'],
    tests: ['test/unit/api/authorization.test.ts'],
  },
  records: {
    files: [
      'shared/csv/record-scanner.ts',
      'shared/csv/csv-cells.ts',
      'shared/csv/identity-reader.ts',
      'shared/csv/file-beginning.ts',
      'shared/csv/chunk-records.ts',
      'shared/csv/partition-file.ts',
    ],
    tests: [
      'test/unit/records/scanner-cases.test.ts',
      'test/unit/records/scanner-limits.test.ts',
      'test/unit/records/record-scanner.test.ts',
      'test/unit/records/identity-reader.test.ts',
      'test/unit/records/file-beginning.test.ts',
      'test/unit/records/file-separator.test.ts',
      'test/unit/records/ascii-email.test.ts',
      'test/unit/records/partition-file.test.ts',
      'test/unit/records/chunk-records.test.ts',
      'test/unit/values/csv-line.test.ts',
      'test/unit/values/email-and-identity.test.ts',
    ],
  },
  files: {
    files: ['character-set', 'transcoder', 'dialect', 'no-table', 'sampled-records'].map(
      (name) => `shared/csv/${name}.ts`,
    ),
    tests: [
      'test/unit/sources/no-table.test.ts',
      'test/unit/sources/binary-kinds.test.ts',
      'test/unit/sources/markup-and-json.test.ts',
      'test/unit/records/character-set.test.ts',
      'test/unit/records/transcoder.test.ts',
      'test/unit/records/dialect.test.ts',
      'test/unit/records/file-beginning.test.ts',
      'test/unit/records/file-separator.test.ts',
      'test/unit/inspection/table.test.ts',
    ],
  },
  containers: {
    files: ['container-kind', 'zip', 'zstd-frames'].map((name) => `shared/containers/${name}.ts`),
    tests: ['containers', 'zip', 'zstd-frames'].map((name) => `test/unit/sources/${name}.test.ts`),
  },
  splitting: {
    files: [
      'shared/csv/file-warnings.ts',
      ...['sampling', 'range-writer', 'record-sorter'].map((name) => `engine/stages/split/${name}.ts`),
    ],
    tests: ['file-warnings', 'sampling', 'range-writer', 'record-sorter'].map(
      (name) => `test/unit/splitting/${name}.test.ts`,
    ),
  },
}
