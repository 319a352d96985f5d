import { cellText } from '../../../shared/csv/csv-cells.ts'
import { consentOfHeader } from '../../../shared/csv/consent-headers.ts'
import type { ImportOptions, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { isDateTime, isNoDate } from '../../../shared/values/date-time.ts'
import { booleanFromText } from '../../../shared/values/boolean-text.ts'
import { statusFromConsent, statusFromText } from '../../../shared/values/subscriber-status.ts'

/** A column that says who gets mail. */
interface TellingColumn {
  index: number
  /** Its number and header, for a sentence. */
  shown: string
  /** Null for a column that isn't mapped. */
  mappedTo: string | null
  /** Whether a trimmed, non-blank cell says that its subscriber gets no mail. */
  saysNo(cell: string): boolean
  records: number
}

/** Counts the records that say no to mail, so that an inspection tells it before an import. */
export class RefusalCounts {
  readonly #columns: TellingColumn[]

  /** `header` is empty where the file has none. */
  constructor(header: string[], plan: ImportPlan, { given_defaults: given }: ImportOptions) {
    const width = Math.max(header.length, plan.columns.length)
    const columns = Array.from({ length: width }, (_, index): TellingColumn | null => {
      const column = plan.columns[index] ?? null
      if (column?.kind === 'field') return null
      const text = cellText(header[index] ?? '')
      const saysNo = column === null ? unmappedReader(text) : mappedReaders[column.name]
      if (saysNo === undefined) return null
      const shown = `column ${index + 1}${text === '' ? '' : ` ${JSON.stringify(text.slice(0, 100))}`}`
      return { index, shown, mappedTo: column?.name ?? null, saysNo, records: 0 }
    }).filter((column) => column !== null)
    const isTold = given.includes('status') || columns.some(({ mappedTo }) => mappedTo === 'status')
    this.#columns = columns.filter(({ mappedTo }) => !isTold || mappedTo !== 'remove_time')
  }

  get isNeeded(): boolean {
    return this.#columns.length > 0
  }

  add(cells: string[]): void {
    for (const column of this.#columns) {
      const cell = cellText(cells[column.index] ?? '')
      if (cell !== '' && column.saysNo(cell)) column.records += 1
    }
  }

  sentences(records: number): string[] {
    return this.#columns
      .filter((column) => column.records > 0)
      .slice(0, maxSentences)
      .map(
        ({ shown, mappedTo, records: refusing }) =>
          `${shown} says no in ${refusing} of the first ${records} records, ${
            mappedTo === null
              ? 'and is not mapped: they are imported like all others'
              : `and is mapped to ${mappedTo}: they are not added as active subscribers`
          }`,
      )
  }
}

const maxSentences = 10

const mappedReaders: Partial<Record<string, TellingColumn['saysNo']>> = {
  status: (cell) => isRefusal(statusFromText(cell)),
  consent: (cell) => isRefusal(statusFromConsent(cell)),
  remove_time: isDateTime,
}

const isRefusal = (status: string | null): boolean => status !== null && status !== 'active'

function unmappedReader(header: string): TellingColumn['saysNo'] | undefined {
  switch (consentOfHeader(header)) {
    case 'yes':
      return (cell) => isRefusal(statusFromText(cell) ?? statusFromConsent(cell))
    case 'no':
      // A reason or a time says it too, an empty list of reasons and a mark for no date don't.
      return (cell) =>
        booleanFromText(cell) ?? (cell !== '[]' && !isNoDate(cell) && statusFromText(cell) !== 'active')
    case null:
      return undefined
  }
}
