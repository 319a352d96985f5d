import { setTimeout as sleep } from 'node:timers/promises'
import cliProgress from 'cli-progress'
import { importEnded, type ApiClient, type ImportView } from './api-client.ts'

/** What the watcher of an import sees: a bar on a terminal, else a line every few seconds. */
interface Display {
  show(view: ImportView, rowsPerSecond: number): void
  end(): void
}

const askEveryMs = 200
const lineEveryMs = 2_000

/** Follows an import to its end and shows how it goes on. */
export async function watchImport(
  client: ApiClient,
  id: number,
  options: { title: string; expectedRows?: number; out: NodeJS.WriteStream; signal: AbortSignal },
): Promise<ImportView> {
  const display = options.out.isTTY ? bar(options) : lines(options)
  const startedAt = performance.now()
  try {
    for (;;) {
      const view = await client.get<ImportView>(`/subscriber_imports/${id}`)
      display.show(view, view.stats.records_imported / ((performance.now() - startedAt) / 1000))
      if (importEnded(view)) return view
      await sleep(askEveryMs, undefined, { signal: options.signal })
    }
  } finally {
    display.end()
  }
}

function bar({
  title,
  expectedRows,
  out,
}: {
  title: string
  expectedRows?: number
  out: NodeJS.WriteStream
}): Display {
  const progress = new cliProgress.SingleBar(
    {
      format: `${title.padEnd(8)} {bar} {percentage}% | {value}/{total} rows | {rate} rows/s | {left} | {state}`,
      stream: out,
      hideCursor: true,
      clearOnComplete: false,
    },
    cliProgress.Presets.shades_classic,
  )
  progress.start(expectedRows ?? 0, 0, { rate: '-', left: '', state: 'scheduled' })
  return {
    show(view, rowsPerSecond) {
      const { number_of_records: total, records_imported: done } = view.stats
      if (total !== null) progress.setTotal(total)
      progress.update(done, {
        rate: Math.round(rowsPerSecond).toLocaleString('en'),
        left: timeLeft(view, rowsPerSecond),
        state: view.state,
      })
    },
    end: () => {
      progress.stop()
    },
  }
}

function lines({ title, out }: { title: string; out: NodeJS.WriteStream }): Display {
  let shownAt = 0
  return {
    show(view, rowsPerSecond) {
      if (performance.now() - shownAt < lineEveryMs && !importEnded(view)) return
      shownAt = performance.now()
      const total = view.stats.number_of_records ?? '?'
      out.write(
        `${title}: ${view.state}, ${view.stats.records_imported} of ${total} rows, ${Math.round(rowsPerSecond)} rows/s${importEnded(view) ? '' : `, ${timeLeft(view, rowsPerSecond)}`}\n`,
      )
    },
    end: () => undefined,
  }
}

function timeLeft(view: ImportView, rowsPerSecond: number): string {
  const { number_of_records: total, records_imported: done } = view.stats
  if (total === null || done === 0) return 'time left unknown'
  const seconds = Math.ceil((total - done) / rowsPerSecond)
  return seconds < 60 ? `${seconds} s left` : `${Math.floor(seconds / 60)} min ${seconds % 60} s left`
}
