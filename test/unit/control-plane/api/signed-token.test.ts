import t from 'tap'
import {
  readToken,
  readUnsubscribeToken,
  signToken,
  unsubscribeToken,
} from '../../../../control-plane/api/signed-token.ts'

const secret = Buffer.from('a secret')

t.test('a token says what was signed, for its purpose and by its secret', async (t) => {
  for (const payload of ['', '5', 'ä:ö', 'x'.repeat(300)]) {
    const token = signToken(secret, 'pages', payload)
    t.match(token, /^[\w.-]+$/, 'it needs no encoding in a URL')
    t.equal(readToken(secret, 'pages', token), payload === '' ? null : payload)
    t.equal(readToken(secret, 'other', token), null)
    t.equal(readToken(Buffer.from('another'), 'pages', token), null)
  }
})

t.test('no change of a token is one', async (t) => {
  const token = signToken(secret, 'pages', '12:34')
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.='
  const read: string[] = []
  for (let at = 0; at < token.length; at += 1)
    for (const character of alphabet) {
      const changed = token.slice(0, at) + character + token.slice(at + 1)
      if (changed !== token && readToken(secret, 'pages', changed) !== null) read.push(changed)
    }
  t.same(read, [])
})

t.test('an unsubscribe token names list, subscriber and message', async (t) => {
  const mail = { listId: 3, subscriberId: 9001, messageId: 'a:b' }
  t.same(readUnsubscribeToken(secret, unsubscribeToken(secret, mail)), mail)
  t.equal(readUnsubscribeToken(secret, signToken(secret, 'pages', '3:9001:a')), null)
})
