import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('access/', import.meta.url), [
  'users',
  'authentication',
  'envelope',
  'http-hardening',
])
