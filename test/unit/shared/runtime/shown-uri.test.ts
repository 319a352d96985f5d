import t from 'tap'
import { openDatabase, refuseUnsafeOptions } from '../../../../shared/runtime/database.ts'
import { shownMongodbUri } from '../../../../shared/runtime/shown-uri.ts'

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
  for (const name of [
    ...['promoteLongs', 'promoteValues', 'promoteBuffers', 'useBigInt64', 'raw', 'fieldsAsRaw', 'bsonRegExp'],
    ...['ignoreUndefined', 'serializeFunctions', 'checkKeys', 'enableUtf8Validation', 'forceServerObjectId'],
    ...['pkFactory', 'waitQueueTimeoutMS', 'readConcern', 'writeConcern'],
  ])
    refused[`${name}=1`] = new RegExp(`: ${name} must be left out`)
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

t.test('a URI is shown without what may be secret in it', async (t) => {
  const shown: [uri: string, shown: string][] = [
    ['mongodb://127.0.0.1:27017/?replicaSet=rs0', 'mongodb://127.0.0.1:27017/?replicaSet=rs0'],
    ['mongodb://ann:s3cret@a:1,[::1]:2/db?w=majority', 'mongodb://ann:***@a:1,[::1]:2/db?w=majority'],
    ['mongodb+srv://ann:s3cret@cluster.example.com', 'mongodb+srv://ann:***@cluster.example.com'],
    ['mongodb://ann:s3/cr@et@a:1/x', 'mongodb://ann:***@a:1/x'],
    ['mongodb://s3cr et@a:1/x', 'mongodb://***:***@a:1/x'],
    ['mongodb://ann:s3cret', 'mongodb://ann:***'],
    ['mongodb://ann:s3cret/x?tls=true', 'mongodb://ann:***/x?tls=true'],
    [
      'mongodb://a:1/?tlsCertificateKeyFilePassword=s3cret&authMechanismProperties=AWS_SESSION_TOKEN:s3cret',
      'mongodb://a:1/?tlsCertificateKeyFilePassword=***&authMechanismProperties=***',
    ],
  ]
  for (const [uri, without] of shown) t.equal(shownMongodbUri(uri), without)
})

t.test('an error of the connection quotes no secret either', async (t) => {
  for (const uri of [
    'mongodb://admin:se/cret77@127.0.0.1:1/x',
    'mongodb://admin:secret77',
    'mongodb://admin:%secret77@127.0.0.1:1/x',
    'mongodb://127.0.0.1:1/x?authMechanismProperties=secret77&tlsCertificateKeyFilePassword=secret77',
  ])
    await t.rejects(openDatabase({ uri, name: 'x' }), { message: /^(?=.*MONGODB_URI)(?!.*cret77)/s }, uri)
})
