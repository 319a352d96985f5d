import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('imports/', import.meta.url), [
  // The first one: it counts that an inspection writes nothing at all.
  'import-inspection',
  'import-rows',
  'enclosures',
  'lines-before-the-table',
  'why-rows-failed',
  'import-moves',
  'import-events',
  'counts-and-jobs',
  'maintenance',
])
