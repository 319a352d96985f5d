import t from 'tap'
import { refuseUnsafeOptions } from '../../shared/database.ts'

t.test('options of MONGODB_URI that would weaken the guards are refused by name', async (t) => {
  const uri = (query: string) => `mongodb://user:secret@127.0.0.1:1/?replicaSet=rs0&${query}`
  const refused: Record<string, RegExp> = {
    'w=1': /w must be majority/,
    'W=0': /W must be majority/,
    'wtimeoutMS=50': /wtimeoutMS must be left out/,
    'journal=false': /journal must be true/,
    'j=false': /j must be true/,
    'wtimeout=1': /wtimeout must be left out/,
    'fsync=true': /fsync must be left out/,
    'readPreference=secondaryPreferred': /readPreference must be primary/,
    'readPreference=nearest&maxStalenessSeconds=90': /readPreference .*maxStalenessSeconds must be left out/,
    'readConcernLevel=available': /readConcernLevel must be majority/,
    'retryWrites=false': /retryWrites must be true/,
    'timeoutMS=500': /timeoutMS must be left out/,
    'socketTimeoutMS=500': /socketTimeoutMS must be left out/,
  }
  for (const [query, message] of Object.entries(refused))
    t.throws(() => refuseUnsafeOptions(uri(query)), { message }, query)
  t.throws(() => refuseUnsafeOptions(uri('w=1')), { message: /^(?!.*secret)/ })
  for (const query of [
    'w=majority',
    'directConnection=true',
    'tls=true&authSource=admin',
    'readPreference=primary',
    'maxPoolSize=5',
  ])
    t.doesNotThrow(() => refuseUnsafeOptions(uri(query)), query)
  t.doesNotThrow(() => refuseUnsafeOptions('mongodb://127.0.0.1'))
})
