import { readFile, writeFile } from 'node:fs/promises'
import { settingsTable } from '../../shared/runtime/config.ts'

/** Puts the settings, as the schema has them, between the markers of the README. */
const file = new URL('../../README.md', import.meta.url)
const text = await readFile(file, 'utf8')
const parts = /^([\s\S]*<!-- settings -->\n)[\s\S]*(<!-- \/settings -->[\s\S]*)$/.exec(text)
if (parts === null) throw new Error('the README lacks the marks <!-- settings --> and <!-- /settings -->')
await writeFile(file, `${parts[1]}\n${settingsTable()}\n\n${parts[2]}`)
