import { RecordScanner, type Dialect, type ScannedRecord } from './record-scanner.ts'

/** The beginning of a file. */
export interface Sample {
  bytes: Buffer
  /** Whether the file ends here. */
  isWhole: boolean
}

/**
 * Finds the records of a sample with the scanner of imports. A last record that the end of the sample may have cut is
 * left out, unless it is the only one.
 */
export function scanSample(
  { bytes, isWhole }: Sample,
  options: {
    dialect: Dialect
    wantedColumn: number
    skippedLines?: number
    onRecord: (record: ScannedRecord) => void
  },
): void {
  let hasRecord = false
  const scanner = new RecordScanner({
    ...options,
    onRecord: (record) => {
      hasRecord = true
      options.onRecord(record)
    },
  })
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  if (isWhole || !hasRecord) scanner.end()
}
