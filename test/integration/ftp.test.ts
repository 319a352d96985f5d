import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('ftp/', import.meta.url), [
  'ftp-front',
  'ftp-metrics',
  'ftp-bounds',
  'ftp-session-state',
  'ftp-tls',
])
