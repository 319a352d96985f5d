import t from 'tap'
import {
  beginImport,
  differences,
  leftovers,
  prepareLists,
  untilSettled,
  whatIsLeftBy,
  writeFiles,
} from '../helpers/compared-import.ts'
import { startHastyEngine } from '../helpers/downloads.ts'
import { importEnd, startService } from '../helpers/service.ts'

t.test('an import whose file two threads split leaves what one leaves whose file one split', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  await writeFiles(service, 20_000)
  const left = []
  for (const isInTwo of [false, true]) {
    if (isInTwo) {
      await service.processes.engine!.stop()
      await startHastyEngine(t, service, { twoThreadsFrom: 1 })
    }
    // Its imports also warm the workers up: one that comes late finds the whole file scanned.
    const [list] = await prepareLists(service, 1)
    const id = await beginImport(service, list!)
    await importEnd(service, id, 60_000)
    await untilSettled(service, id)
    const document = await service.collections.imports.findOne({ _id: id })
    t.equal(document!.partition_tail !== undefined, isInTwo)
    t.same(await leftovers(service, id), [])
    left.push(await whatIsLeftBy(service, id))
  }
  t.same(differences(left[0]!, left[1]!), [])
})
