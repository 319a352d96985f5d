import { randomBytes } from 'node:crypto'
import t from 'tap'
import { callbackWithoutSecrets, withoutSecrets } from '../../../../shared/runtime/masked-url.ts'
import { CannotUnseal, SecretBox, secretKey } from '../../../../shared/store/secrets.ts'

t.test('a URL is shown without what may be secret in it, and else as it was given', (t) => {
  const shown: [url: string, without: string][] = [
    ['https://ann:s3cret@example.com/a.csv', 'https://ann:***@example.com/a.csv'],
    ['https://:s3cret@example.com/', 'https://:***@example.com/'],
    ['https://glpat-0123456789@example.com/a.csv', 'https://***@example.com/a.csv'],
    ['ftp://ann@example.com/a.csv', 'ftp://ann@example.com/a.csv'],
    ['ftps://ann:p%40ss@example.com/a.csv', 'ftps://ann:***@example.com/a.csv'],
    ['https://example.com/a.csv?list=5&token=x', 'https://example.com/a.csv?list=5&token=***'],
    [
      'https://s3.example.com/a.csv?X-Amz-Expires=3600&X-Amz-Signature=ab12&u=0123456789abcdef',
      'https://s3.example.com/a.csv?X-Amz-Expires=3600&X-Amz-Signature=***&u=***',
    ],
    ['https://example.com/a.csv?0123456789abcdef', 'https://example.com/a.csv?***'],
    ['https://example.com/a.csv#access_token=x', 'https://example.com/a.csv#access_token=***'],
    ['https://example.com/a.csv?key=a=b&list=5', 'https://example.com/a.csv?key=***&list=5'],
    ['https://SECRET7@example.com/a.csv', 'https://***@example.com/a.csv'],
    ['https://ghp_abcdef0123456789:x-oauth-basic@example.com/', 'https://***:***@example.com/'],
    ['https://example.com/a.csv?p=hunter2&k=abc1234', 'https://example.com/a.csv?p=***&k=***'],
    ['https://example.com/a.csv?a=%74oken', 'https://example.com/a.csv?a=***'],
    [
      'https://example.com/a.csv?format=csv&gid=0&page=12',
      'https://example.com/a.csv?format=csv&gid=0&page=12',
    ],
    ['https://example.com/a.csv?', 'https://example.com/a.csv?'],
    ['https://EXAMPLE.com/a b.csv?list=5', 'https://EXAMPLE.com/a b.csv?list=5'],
    ['HTTPS:\\\\example.com\\a.csv?to\nken=x', 'https://example.com/a.csv?token=***'],
  ]
  for (const [url, without] of shown) {
    t.equal(withoutSecrets(url), without)
    t.equal(withoutSecrets(without), without, 'again it is the same')
  }
  t.end()
})

t.test('a callback is shown without tokens in its path, too', (t) => {
  const shown: [url: string, without: string][] = [
    [
      'https://hooks.example.com/services/T0000001/B0000002/abcdefABCDEF123456',
      'https://hooks.example.com/services/***/***/***',
    ],
    ['https://example.com/imports/done?token=x', 'https://example.com/imports/done?token=***'],
    ['https://example.com/a/verylongsecretwithoutdigits/', 'https://example.com/a/***/'],
    ['https://EXAMPLE.com/hook', 'https://EXAMPLE.com/hook'],
  ]
  for (const [url, without] of shown) {
    t.equal(callbackWithoutSecrets(url), without)
    t.equal(callbackWithoutSecrets(without), without, 'again it is the same')
  }
  t.end()
})

const newKey = () => secretKey(randomBytes(32))
const boxWith = (...keys: ReturnType<typeof newKey>[]) => new SecretBox(keys, () => Promise.resolve(keys))

t.test('what is sealed opens for its owner alone, and says nothing', async (t) => {
  const box = boxWith(newKey())
  const text = 'a secret, ü 💥'
  const sealed = box.seal(text, 'import 1')
  t.equal(await box.open(sealed, 'import 1'), text)
  t.notOk(sealed.includes('secret'))
  t.notSame(box.seal(text, 'import 1'), sealed, 'never the same twice')
  await t.rejects(box.open(sealed, 'import 2'), CannotUnseal)
  for (let i = 0; i < sealed.length; i += 1) {
    const changed = Buffer.from(sealed)
    changed[i]! ^= 1
    await t.rejects(box.open(changed, 'import 1'), CannotUnseal, `byte ${i}`)
  }
  for (const short of [sealed.subarray(0, -1), sealed.subarray(0, 20), Buffer.alloc(0)])
    await t.rejects(box.open(short, 'import 1'), CannotUnseal)
})

t.test('the first key seals, all of them open, and a key that came later is found', async (t) => {
  const [old, recent] = [newKey(), newKey()]
  const [before, rotated] = [boxWith(old), boxWith(recent, old)]
  t.equal(await rotated.open(before.seal('x', 'a'), 'a'), 'x')
  await t.rejects(before.open(rotated.seal('x', 'a'), 'a'), {
    name: 'CannotUnseal',
    message: new RegExp(`with the key ${recent.id}, which this process does not have: .*SECRETS_KEY_FILE`),
  })
  let file = [old]
  const reader = new SecretBox(file, () => Promise.resolve(file))
  file = [recent, old]
  t.equal(await reader.open(rotated.seal('x', 'a'), 'a'), 'x')
  t.equal(boxWith().canSeal, false)
  await t.rejects(boxWith().open(before.seal('x', 'a'), 'a'), CannotUnseal)
})
