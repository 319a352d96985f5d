import { runTogether } from '../helpers/run-together.ts'

await runTogether(new URL('who-sees-whose/', import.meta.url), ['every-endpoint'])
