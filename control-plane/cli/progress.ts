import { clock } from '../../shared/runtime/clock.ts'
import { importEnded, type ImportView } from './api-client.ts'
import { columnsOf, cutTo, styledFor, widthOf, type Style } from './terminal.ts'

/** What the watcher of an import sees: a bar on a terminal, else a line every few seconds. */
export interface Progress {
  show(view: ImportView): void
  /** Something happened meanwhile. */
  note(text: string): void
  end(): void
}

export interface ProgressOptions {
  title: string
  expectedRows?: number
  out: NodeJS.WriteStream
  hasColours?: boolean
}

const lineEveryMs = 2_000

export function progressOn(options: ProgressOptions): Progress {
  return options.out.isTTY ? bar(options) : lines(options)
}

/** Rows a second over the last ten seconds: what was before a pause or a restart says nothing of what is to come. */
export class Rate {
  #samples: { atMs: number; rows: number }[] = []

  /** `atMs` on any clock that doesn't go back. Null as long as nothing can be said. */
  add(atMs: number, rows: number, isMoving: boolean): number | null {
    if (!isMoving) this.#samples = []
    this.#samples.push({ atMs, rows })
    while (this.#samples.length > 2 && atMs - this.#samples[1]!.atMs > 10_000) this.#samples.shift()
    const first = this.#samples[0]!
    const seconds = (atMs - first.atMs) / 1000
    return seconds < 0.2 ? null : (rows - first.rows) / seconds
  }
}

function bar({ title, expectedRows, out, hasColours }: ProgressOptions): Progress {
  const style = styledFor({ hasColours: hasColours ?? true }, out)
  const rate = new Rate()
  let isShown = false
  return {
    show(view) {
      const rowsPerSecond = rate.add(
        clock.monotonicMs(),
        view.stats.records_imported,
        view.state === 'importing',
      )
      const line = barLine(view, {
        title,
        expectedRows: expectedRows ?? null,
        rowsPerSecond,
        width: columnsOf(out) - 1,
        style,
      })
      out.write(`\r${line}\u001b[K`)
      isShown = true
    },
    note(text) {
      out.write(`\r${cutTo(text, columnsOf(out) - 1)}\u001b[K`)
      isShown = true
    },
    end() {
      if (isShown) out.write('\n')
      isShown = false
    },
  }
}

const styles: Record<string, Style> = {
  finished: 'green',
  failed: 'red',
  cancelled: 'yellow',
  paused: 'yellow',
}

/** One line, not wider than `width`: what is least needed is left out first. */
export function barLine(
  view: ImportView,
  {
    title,
    expectedRows,
    rowsPerSecond,
    width,
    style,
  }: {
    title: string
    expectedRows: number | null
    rowsPerSecond: number | null
    width: number
    style: (style: Style, text: string) => string
  },
): string {
  const { number_of_records, records_imported: done } = view.stats
  const total = number_of_records ?? expectedRows
  const state = style(styles[view.state] ?? 'cyan', view.state)
  const share = total === null ? 0 : total === 0 ? (importEnded(view) ? 1 : 0) : Math.min(1, done / total)
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  const all = total === null ? '?' : number(total)
  // As wide all the time, so that the bar keeps its place.
  const count = `${number(done).padStart(all.length)}/${all}`
  const speed = rowsPerSecond === null || importEnded(view) ? null : number(Math.round(rowsPerSecond))
  const rest = [speed === null ? null : `${speed} rows/s`, timeLeft(view, rowsPerSecond), activity(view)]
  const long = [`${percent}  ${count} rows`, ...rest]
  const short = [percent, count, speed === null ? null : `${speed}/s`, timeLeft(view, rowsPerSecond)]
  const minBarWidth = 10
  for (const [heads, parts] of [
    [[title, state], long],
    [[state], long],
    [[state], short],
    [[], short],
    [[], short.slice(0, 2)],
  ] as const) {
    const head = heads.filter((part) => part !== '').join('  ')
    const tail = parts.filter((part) => part !== null).join('  ')
    const remaining = width - widthOf(head) - widthOf(tail) - (head === '' ? 1 : 3)
    if (remaining < minBarWidth) continue
    const size = Math.min(40, remaining)
    const full = Math.round(share * size)
    return `${head}${head === '' ? '' : '  '}${style('cyan', '█'.repeat(full))}${style('dim', '░'.repeat(size - full))} ${tail}`
  }
  return cutTo(`${percent} ${count}`, width)
}

const number = (value: number): string => value.toLocaleString('en')

/** What goes on besides rows. */
function activity(view: ImportView): string | null {
  if (view.state === 'scheduled')
    return view.waiting_for_import_id === null ? null : `waits for import ${view.waiting_for_import_id}`
  if (view.state !== 'downloading' || view.download === null) return null
  const { bytes_received: received, bytes_expected: expected, next_attempt_at: next } = view.download
  if (next !== null) return `tries again at ${next}`
  return `${megabytes(received)}${expected === null ? '' : ` of ${megabytes(expected)}`} MB`
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1)

function lines({ title, out }: ProgressOptions): Progress {
  const rate = new Rate()
  let shownAt = -Infinity
  return {
    show(view) {
      const rowsPerSecond = rate.add(
        clock.monotonicMs(),
        view.stats.records_imported,
        view.state === 'importing',
      )
      if (clock.monotonicMs() - shownAt < lineEveryMs && !importEnded(view)) return
      shownAt = clock.monotonicMs()
      const parts = [
        `${view.state}, ${view.stats.records_imported} of ${view.stats.number_of_records ?? '?'} rows`,
        rowsPerSecond === null || importEnded(view) ? null : `${Math.round(rowsPerSecond)} rows/s`,
        timeLeft(view, rowsPerSecond),
        activity(view),
      ]
      out.write(`${title}: ${parts.filter((part) => part !== null).join(', ')}\n`)
    },
    note: (text) => out.write(`${title}: ${text}\n`),
    end: () => undefined,
  }
}

function timeLeft(view: ImportView, rowsPerSecond: number | null): string | null {
  const { number_of_records: total, records_imported: done } = view.stats
  if (view.state !== 'importing' || total === null || rowsPerSecond === null || rowsPerSecond <= 0)
    return null
  const seconds = Math.ceil((total - done) / rowsPerSecond)
  if (seconds < 60) return `${seconds} s left`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60
    ? `${minutes} min ${seconds % 60} s left`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min left`
}
