import { argon2Sync } from 'node:crypto'
import t from 'tap'
import { clock } from '../../../../../shared/runtime/clock.ts'
import { createSlots, Slots } from '../../../../../control-plane/api/slots.ts'
import * as passwords from '../../../../../control-plane/resources/users/passwords.ts'

const { unmatchableHash } = passwords
const stopping = new AbortController().signal
const { passwords: slots } = createSlots(stopping, { HTTP_INLINE_LIMIT_MB: 16 })
const slotOf =
  (organizationId: number): passwords.RunInSlot =>
  (compute) =>
    slots.run({ organizationId }, compute)
const hashPassword = (password: string) => passwords.hashPassword(password, slotOf(1))
const isPassword = (password: string, hash: string, organizationId = 1) =>
  passwords.isPassword(password, hash, slotOf(organizationId))

t.test('a password is right only as it is, in any Unicode form of its accents', async (t) => {
  const hash = await hashPassword('pässword 😀')
  t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
  t.equal(await isPassword('pässword 😀'.normalize('NFD'), hash), true)
  for (const wrong of ['', 'password 😀', 'Pässword 😀', 'pässword 😀 ', 'pässword 😀\0'])
    t.equal(await isPassword(wrong, hash), false, JSON.stringify(wrong))
  t.not(await hashPassword('pässword 😀'), hash, 'salted')
})

t.test('a hash is read with the parameters that it names', async (t) => {
  const salt = Buffer.from('0123456789abcdef')
  const tag = argon2Sync('argon2id', {
    message: 'password',
    nonce: salt,
    memory: 64,
    passes: 3,
    parallelism: 1,
    tagLength: 24,
  })
  const base64 = (bytes: Buffer) => bytes.toString('base64').replaceAll('=', '')
  const hash = `$argon2id$v=19$m=64,t=3,p=1$${base64(salt)}$${base64(tag)}`
  t.equal(await isPassword('password', hash), true)
  t.equal(await isPassword('passwort', hash), false)
  await t.rejects(isPassword('password', 'plain'), /no Argon2id hash/)
})

t.test('the hash of an unknown user costs as much as any other', async (t) => {
  const parametersOf = (hash: string) => hash.split('$').slice(0, 4).join('$')
  t.equal(parametersOf(unmatchableHash), parametersOf(await hashPassword('password')))
  t.equal(await isPassword('password', unmatchableHash), false)
})

t.test('hashes wait in line, up to a bound for each organization', async (t) => {
  const cheap = '$argon2id$v=19$m=8,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg'
  const many = Promise.allSettled(Array.from({ length: 300 }, () => isPassword('password', cheap)))
  t.equal(await isPassword('password', cheap, 2), false, 'another organization still gets in')
  const refused = (await many).filter((one) => one.status === 'rejected')
  t.equal(refused.length, 300 - 202, 'two at work and two hundred in wait')
  t.match(refused[0]!.reason, { code: 'not_authorized', status: 429, headers: { 'Retry-After': '10' } })
  t.equal(await isPassword('password', cheap), false, 'and go on afterwards')
})

t.test('organizations are served in turn, however many hashes each of them brings', async (t) => {
  // All cost the same.
  const { monotonicMs } = clock
  clock.monotonicMs = () => 0
  t.teardown(() => (clock.monotonicMs = monotonicMs))
  const slots = new Slots({ atOnce: 1, ofOrganization: 1, maxWaiting: 10 }, stopping)
  const served: number[] = []
  const take = (organizationId: number) =>
    slots.run({ organizationId }, async () => void served.push(organizationId))
  await Promise.all([1, 1, 1, 1, 2, 2, 3].map(take))
  t.same(served, [1, 2, 3, 1, 2, 1, 1])
})

t.test('a stop refuses those that wait, and lets a hash in progress end', async (t) => {
  const stop = new AbortController()
  const slots = new Slots(
    { atOnce: 1, ofOrganization: 1, maxWaiting: 10, undone: 'checked no password' },
    stop.signal,
  )
  const gate = Promise.withResolvers<string>()
  const take = (work: () => Promise<string>) => slots.run({ organizationId: 1 }, work)
  const inProgress = take(() => gate.promise)
  const waiting = [1, 2, 3].map(() => take(() => Promise.resolve('too late')))
  stop.abort()
  for (const one of [...waiting, take(() => Promise.resolve('too late'))])
    await t.rejects(one, { code: 'internal_error', status: 503, headers: { 'Retry-After': '1' } })
  gate.resolve('hashed')
  t.equal(await inProgress, 'hashed')
})

t.test('work whose client has gone leaves the line', async (t) => {
  const slots = new Slots({ atOnce: 3, ofOrganization: 2, maxWaiting: 10 }, stopping)
  const gate = Promise.withResolvers<string>()
  const ran: string[] = []
  const run = (name: string, clientGone?: AbortSignal) =>
    slots.run({ organizationId: 1, clientGone }, async () => {
      ran.push(name)
      await gate.promise
    })
  const gone = new AbortController()
  const works = [run('first'), run('second')]
  const left = [run('third', gone.signal), run('fourth', gone.signal)]
  works.push(run('fifth'))
  gone.abort()
  for (const each of left) await t.rejects(each, /closed the connection/)
  await t.rejects(run('sixth', gone.signal), /closed the connection/)
  gate.resolve('')
  await Promise.all(works)
  t.same(ran, ['first', 'second', 'fifth'])
})
