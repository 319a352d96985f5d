import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('stores/', import.meta.url), [
  'existing-subscribers',
  'staged-content',
  'broken-connections',
  'ids',
  'uploads',
  'take-over',
  'tries',
  'process-registration',
  'leases',
  'lease-cuts',
  'stale-step',
  'guards',
  'leading-engine',
  'list-counts',
  'searched-lists',
  'import-sums',
  'import-stats',
  'metric-values',
  'messages-at-once',
  'finalization',
])
