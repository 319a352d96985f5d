import t, { type Test } from 'tap'
import { writeSubscriberFile } from '../../../../bench/datasets/subscriber-file.ts'
import { mongoimportPeers } from '../../../../bench/peers/mongoimport.ts'
import type { Bench } from '../../../../bench/scenario.ts'
import { databaseAndFolder } from '../../../helpers/database-and-folder.ts'
import { missing } from '../../../helpers/missing-programs.ts'
import { testMongodbUri } from '../../../helpers/service.ts'

const skip = missing('mongoimport')

t.test(
  'mongoimport signs in to a server with a password, and what it wrote is compared',
  { skip },
  async (t) => {
    const [insert] = await peersOn(t, testMongodbUri())
    const { is_right, rows } = await insert!.run()
    t.equal(is_right, true)
    t.equal(rows, 100)
  },
)

t.test('the reason of a mongoimport that fails is shown, without the password', { skip }, async (t) => {
  const uri = testMongodbUri().replace(/:[^:@/]+@/, ':not-the-password@')
  const [insert] = await peersOn(t, uri)
  const error = await insert!.run().then(() => null, String)
  t.match(error, /mongoimport ended with 1/)
  t.match(error, /unable to authenticate/)
  t.notMatch(error, /not-the-password/)
})

/** Contenders whose mongoimport writes to this server; the benchmark itself reads from the test's. */
async function peersOn(t: Test, mongodbUri: string) {
  const { database, folder } = await databaseAndFolder(t)
  const said = (text: string) => t.comment(text)
  const bench: Bench = {
    rows: 100,
    seed: 1,
    folder,
    mongodbUri,
    server: database.client,
    say: said,
  }
  const written = await writeSubscriberFile(bench, { defects: false })
  return mongoimportPeers(bench, { ...written, modes: ['insert'] })
}
