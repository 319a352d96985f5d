import t from 'tap'
import { Engines } from '../helpers/engines.ts'
import { createList, startService, until, type Json } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/**
 * The reasons of failed rows are true at every moment: while an import runs, after its engine was killed, and at its end.
 * Each view is compared with its own counts, the last one with what the file has.
 */

const rows = 60_000
const points = { name: 'Points', field_type: 'number', maximum_value: 10 } as const

/** In each ten rows: a wrong address, a wrong number, a blank address. */
const line = (row: number): string => {
  if (row % 10 === 1) return `nobody ${row},1\n`
  if (row % 10 === 4) return `user${row}@x.co,11\n`
  return row % 10 === 7 ? ',x\n' : `user${row}@x.co,1\n`
}

/** Names a contradiction between the reasons of a view and its counts. */
function contradictions(view: Json): string[] {
  const summary: Json[] = view.failure_summary
  const sum = summary.reduce((total: number, { rows: ofFault }) => total + Number(ofFault), 0)
  const { failed } = view.stats.subscribers
  const isSorted = summary.every(
    ({ rows: ofFault, first_record: first }, i) =>
      i === 0 ||
      summary[i - 1].rows > ofFault ||
      (summary[i - 1].rows === ofFault && summary[i - 1].first_record < first),
  )
  return [
    ...(sum === failed ? [] : [`${sum} rows in the summary, ${failed} failed ones in the counts`]),
    ...(isSorted ? [] : [`out of order: ${JSON.stringify(summary)}`]),
  ]
}

for (const dry_run of [false, true])
  t.test(`reasons are exact through kills, dry run: ${dry_run}`, { timeout: 200_000 }, async (t) => {
    const service = await startService(t, ['control-plane'])
    const engines = new Engines(t, service)
    const list = await createList(service, [points])
    await storedUploads(service).put('rows.csv', Array.from({ length: rows }, (_, row) => line(row)).join(''))
    const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        ...{ dry_run, column_mapping: ['email', 'Points'], file_format: { csv_has_headers: false } },
        file_source: { type: 'upload_directory', filename: 'rows.csv' },
      },
    })
    const seen: string[] = []
    const follow = (what: string, isEnough: (view: Json) => boolean) =>
      until(
        what,
        async () => {
          const view = await service.get(`/subscriber_imports/${id}`)
          seen.push(...contradictions(view))
          return view
        },
        isEnough,
        60_000,
      )
    // The rows without an identity are one chunk of four batches. Engines die after the first and before the third one.
    for (const crashAt of [
      'update import_chunks },"quota_reserved" > commitTransaction after 1',
      'update import_chunks },"quota_reserved" > commitTransaction before 2',
    ]) {
      const engine = await engines.start(crashAt)
      await engines.untilEnded(engine)
      seen.push(...contradictions(await service.get(`/subscriber_imports/${id}`)))
      await engines.endLeaseOf(engine)
    }
    const between = await service.get(`/subscriber_imports/${id}`)
    t.ok(between.failure_summary.length > 0 && between.state === 'importing', 'the engines died midway')
    await engines.start()
    await follow('a part of the rows', (view) => view.stats.records_imported > rows / 3)
    const view = await follow('the end', ({ state }) => state === 'finished')
    await follow('the fixed counts', () => true)
    t.same([...new Set(seen)], [])
    t.same(
      view.failure_summary.map(({ reason: _, ...fault }: Json) => fault),
      [
        { column: 1, header: null, field: 'email', rows: rows / 10, first_record: 2, example: 'nobody 1' },
        { column: 2, header: null, field: 'Points', rows: rows / 10, first_record: 5, example: '11' },
        { column: 1, header: null, field: 'email', rows: rows / 10, first_record: 8, example: '' },
      ],
    )
  })
