import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('mails/', import.meta.url), [
  'campaign-templates',
  'autoresponders',
  'trigger-autoresponders',
])
