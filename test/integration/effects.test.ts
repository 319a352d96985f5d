import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('effects/', import.meta.url), [
  'reactions',
  'subscriber-effects',
  'subscriber-limit',
])
