import t from 'tap'
import { createSlots } from '../../../control-plane/api/slots.ts'
import { createSharedReads } from '../../../control-plane/store/shared-reads.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

const { database } = await databaseAndFolder(t)

t.test(
  'searches that come while the organization’s wide ones run share the reads of its lists',
  async (t) => {
    const slots = createSlots(new AbortController().signal, { HTTP_INLINE_LIMIT_MB: 16 })
    const reads = createSharedReads(database, slots)
    const readLists = (organizationId: number) =>
      reads.listsToSearch(JSON.stringify({ organizationId, filter: { organization_id: organizationId } }))
    const running = await Promise.all(
      Array.from({ length: 3 }, () => slots.searches.acquire({ organizationId: 1 })),
    )
    await database.db.command({ profile: 2 })
    const waiting: Promise<unknown>[] = []
    for (let i = 0; i < 20; i += 1) {
      waiting.push(readLists(1))
      // Another organization's search doesn't wait.
      t.same(await readLists(2), [])
    }
    for (const release of running) release()
    await Promise.all(waiting)
    await database.db.command({ profile: 0 })
    const profile = database.db.collection('system.profile')
    t.equal(await profile.countDocuments({ 'command.filter.organization_id': 1 }), 2)
  },
)
