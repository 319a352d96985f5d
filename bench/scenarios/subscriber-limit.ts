import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import type { Comparison } from '../scenario.ts'

/** What it costs to keep an organization under its subscriber limit while there is room. */
export const subscriberLimit: Comparison = {
  name: 'subscriber-limit',
  summary:
    'new rows of an organization with a subscriber limit that is far away, against one without a limit',
  defaultRows: 300_000,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context)
    return [
      rollcallImport(context, { name: 'with a limit', dataset, file, subscriberLimit: context.rows * 10 }),
      rollcallImport(context, { name: 'without a limit', dataset, file }),
    ]
  },
}
