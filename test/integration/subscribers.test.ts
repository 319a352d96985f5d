import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('subscribers/', import.meta.url), [
  'subscribers',
  'subscribers-found',
  'subscribers-together',
  'lists-and-fields',
  'over-the-limits',
  'confirmation',
])
