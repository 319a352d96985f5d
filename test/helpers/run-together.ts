import t from 'tap'

/**
 * Runs the files of a folder in this process, where they share a service and a database each of which costs a second
 * to start. Their tests wait until all of them are loaded: between two files with nothing left to run tap would end.
 */
export async function runTogether(folder: URL, names: string[]): Promise<void> {
  await t.test(`loads ${names.join(', ')}`, async (t) => {
    for (const name of names) await import(new URL(`${name}.ts`, folder).href)
    t.pass()
  })
}
