import { RecordScanner, type Dialect, type ScannedRecord } from '../../../shared/csv/record-scanner.ts'
import type { Sample } from './sample.ts'

/**
 * The records of a sample, found by the import's own scanner. The last one is left out where the sample ends in the
 * middle of it, unless it is the only one.
 */
export function scanSample(
  { bytes, isWhole }: Sample,
  options: { dialect: Dialect; wantedColumn: number; onRecord: (record: ScannedRecord) => void },
): void {
  let records = 0
  const scanner = new RecordScanner({
    ...options,
    onRecord: (record) => {
      records += 1
      options.onRecord(record)
    },
  })
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  if (isWhole || records === 0) scanner.end()
}
