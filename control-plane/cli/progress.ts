import { clock } from '../../shared/runtime/clock.ts'
import { decimalMegabyte } from '../../shared/values/byte-sizes.ts'
import { hasEnded } from '../../shared/contract/import-state.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { terminalWidth, cutTo, styledFor, displayWidth, type Style } from './terminal.ts'

/** Shows an import's progress: a bar on a terminal, else a line every few seconds. */
interface Progress {
  show(view: ImportView): void
  showMessage(text: string): void
  end(): void
}

export interface ProgressOptions {
  title: string
  expectedRows?: number
  out: NodeJS.WriteStream
  hasColours?: boolean
}

const lineIntervalMs = 2_000

export function progressOn(options: ProgressOptions): Progress {
  return options.out.isTTY ? bar(options) : lines(options)
}

interface Sample {
  atMs: number
  rows: number
}

/** Rows a second over the last ten seconds, because the rate before a pause or a restart predicts nothing. */
export class Rate {
  #samples: Sample[] = []

  /** `atMs` is of a monotonic clock. Returns null while there are too few samples. */
  add(atMs: number, rows: number, isMoving: boolean): number | null {
    if (!isMoving) this.#samples = []
    const latest = { atMs, rows }
    this.#samples.push(latest)
    for (;;) {
      const [first = latest, second = latest, third] = this.#samples
      if (third === undefined || atMs - second.atMs <= 10_000) return rateBetween(first, latest)
      this.#samples.shift()
    }
  }
}

function rateBetween(first: Sample, latest: Sample): number | null {
  const seconds = (latest.atMs - first.atMs) / 1000
  return seconds < 0.2 ? null : (latest.rows - first.rows) / seconds
}

const addViewTo = (rate: Rate, { stats, state }: ImportView): number | null =>
  rate.add(clock.monotonicMs(), stats.records_imported, state === 'importing')

function bar({ title, expectedRows, out, hasColours }: ProgressOptions): Progress {
  const style = styledFor({ hasColours: hasColours ?? true }, out)
  const rate = new Rate()
  let isShown = false
  return {
    show(view) {
      const line = barLine(view, {
        title,
        expectedRows: expectedRows ?? null,
        rowsPerSecond: addViewTo(rate, view),
        width: terminalWidth(out) - 1,
        style,
      })
      out.write(`\r${line}\u001b[K`)
      isShown = true
    },
    showMessage(text) {
      out.write(`\r${cutTo(text, terminalWidth(out) - 1)}\u001b[K`)
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

/** One line of at most `width` columns. The least important parts are left out first. */
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
  const share = total === null ? 0 : total === 0 ? (hasEnded(view.state) ? 1 : 0) : Math.min(1, done / total)
  const percent = `${Math.floor(share * 100)}%`.padStart(4)
  const all = total === null ? '?' : number(total)
  // Padded to a constant width, so that the bar doesn't move.
  const count = `${number(done).padStart(all.length)}/${all}`
  const speed = rowsPerSecond === null || hasEnded(view.state) ? null : number(Math.round(rowsPerSecond))
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
    const details = parts.filter((part) => part !== null).join('  ')
    const remaining = width - displayWidth(head) - displayWidth(details) - (head === '' ? 1 : 3)
    if (remaining < minBarWidth) continue
    const size = Math.min(40, remaining)
    const full = Math.round(share * size)
    return `${head}${head === '' ? '' : '  '}${style('cyan', '█'.repeat(full))}${style('dim', '░'.repeat(size - full))} ${details}`
  }
  return cutTo(`${percent} ${count}`, width)
}

const number = (value: number): string => value.toLocaleString('en')

/** What the import waits for or downloads before it imports rows. */
function activity(view: ImportView): string | null {
  if (view.state === 'scheduled')
    return view.waiting_for_import_id === null ? null : `waits for import ${view.waiting_for_import_id}`
  if (view.state !== 'downloading' || view.download === null) return null
  const { bytes_received: received, bytes_expected: expected, next_attempt_at: next } = view.download
  if (next !== null) return `tries again at ${next}`
  return `${megabytes(received)}${expected === null ? '' : ` of ${megabytes(expected)}`} MB`
}

const megabytes = (bytes: number): string => (bytes / decimalMegabyte).toFixed(1)

function lines({ title, out }: ProgressOptions): Progress {
  const rate = new Rate()
  let shownAt = -Infinity
  return {
    show(view) {
      const rowsPerSecond = addViewTo(rate, view)
      if (clock.monotonicMs() - shownAt < lineIntervalMs && !hasEnded(view.state)) return
      shownAt = clock.monotonicMs()
      const parts = [
        `${view.state}, ${view.stats.records_imported} of ${view.stats.number_of_records ?? '?'} rows`,
        rowsPerSecond === null || hasEnded(view.state) ? null : `${Math.round(rowsPerSecond)} rows/s`,
        timeLeft(view, rowsPerSecond),
        activity(view),
      ]
      out.write(`${title}: ${parts.filter((part) => part !== null).join(', ')}\n`)
    },
    showMessage: (text) => out.write(`${title}: ${text}\n`),
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
