import t from 'tap'
import {
  beginImport,
  differences,
  leftovers,
  prepareLists,
  untilFinalized,
  whatIsLeftBy,
  writeFiles,
  type Left,
} from '../helpers/compared-import.ts'
import { startHastyEngine } from '../helpers/downloads.ts'
import { importEnd, startService } from '../helpers/service.ts'

const maxAttempts = 5

t.test('an import that two threads split leaves the same as one that a single thread split', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  await writeFiles(service, 20_000)
  const left: Left[] = []
  for (const isInTwo of [false, true]) {
    if (isInTwo) {
      await service.processes.engine!.stop()
      await startHastyEngine(t, service, { twoThreadsFrom: 1 })
    }
    let wasInTwo: boolean
    let tries = 0
    do {
      // Its imports also warm the worker up. On a busy machine it may still start late and find the file scanned.
      const [list] = await prepareLists(service, 1)
      const id = await beginImport(service, list!)
      await importEnd(service, id, 60_000)
      await untilFinalized(service, id)
      const document = await service.collections.imports.findOne({ _id: id })
      wasInTwo = document!.partition_second_half !== undefined
      t.same(await leftovers(service, id), [])
      left[isInTwo ? 1 : 0] = await whatIsLeftBy(service, id)
      tries += 1
    } while (wasInTwo !== isInTwo && tries < maxAttempts)
    t.equal(wasInTwo, isInTwo)
  }
  t.same(differences(left[0]!, left[1]!), [])
})
