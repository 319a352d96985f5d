import t from 'tap'
import { stopTookTooLong } from '../helpers/ended-late.ts'
import { metricValue } from '../helpers/metric-value.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { startService, until, type Answer, type Json } from '../helpers/service.ts'

const service = await startService(t, ['control-plane'], {
  USER_LOCKOUT_FAILURES: '3',
  USER_LOCKOUT_MINUTES: '30',
  TERMS_AND_CONDITIONS_VERSION: '2',
})
const { call, post, collections } = service
const organization = await post('/organizations', {
  organization: { name: 'Example Ltd', time_zone_name: 'Asia/Kolkata' },
})
const asAdmin = {
  key: (await post(`/organizations/${organization.id}/api_keys`, { api_key: { name: 'admin' } }))
    .key as string,
}
const password = 'pässword with ünicode'
let created = 0

async function newUser(fields: Json = {}, options = asAdmin): Promise<Json> {
  created += 1
  const user = {
    full_name: 'Jane Roe',
    email: `jane${created}@example.com`,
    active: true,
    role: 'standard',
    password1: password,
    password2: password,
    ...fields,
  }
  const { body, text } = await call('POST', '/users', { user }, options)
  if (body.success !== true) throw new Error(text)
  return body.data
}

const signIn = (
  email: string,
  sentPassword = password,
  options: { key?: string } = asAdmin,
): Promise<Answer> =>
  call('POST', '/users/authenticate', { user: { email, password: sentPassword } }, options)
const stored = async (id: number) => (await collections.users.findOne({ _id: id }))!
const lockout = async (id: number) =>
  (await call('GET', `/users/${id}`, undefined, asAdmin)).body.data.password_failure_lockout
const refusal = (await signIn('nobody@example.com')).body

t.test(
  'the right password returns the user, to admins of its organization and to system admins',
  async (t) => {
    const user = await newUser({ terms_and_conditions_version: 2 })
    t.same((await signIn(user.email)).body.data, user)
    t.same((await signIn(` ${user.email.toUpperCase()} `)).body.data, user, 'the email without case')
    t.same((await signIn(user.email, password.normalize('NFD'))).body.data, user, 'however it was typed')
    t.same((await signIn(user.email, password, {})).body.data, user, 'a system admin')
  },
)

t.test('every refusal is the same', async (t) => {
  t.match(refusal, { success: false, data: null, error_code: 'not_authorized' })
  const user = await newUser()
  const inactive = await newUser({ active: false })
  const foreign = await newUser({}, {} as typeof asAdmin)
  const locked = await newUser()
  await collections.users.updateOne(
    { _id: locked.id },
    { $set: { locked_until: new Date(Date.now() + 60_000) } },
  )
  const before = await stored(foreign.id)
  for (const [what, email, sentPassword] of [
    ['wrong password', user.email, 'wrong password'],
    ['blank password', user.email, ''],
    ['other case', user.email, password.toUpperCase()],
    ['long password', user.email, 'x'.repeat(5_000)],
    ['inactive', inactive.email, password],
    ['foreign', foreign.email, password],
    ['foreign, wrong password', foreign.email, 'wrong password'],
    ['locked out', locked.email, password],
    ['blank email', '', password],
    ['NUL', '\0', password],
  ] as const) {
    const answer = await signIn(email, sentPassword)
    t.equal(answer.status, 200, what)
    t.same(answer.body, refusal, what)
  }
  t.same(await stored(foreign.id), before, 'no admin locks out users of other organizations')
  for (const body of [{}, { user: {} }, { user: { email: user.email } }, { user: { email: 5, password } }])
    t.equal((await call('POST', '/users/authenticate', body, asAdmin)).body.success, false)
})

t.test('consecutive wrong passwords lock out, and a success or a reset begins the count anew', async (t) => {
  const { id, email } = await newUser()
  const reset = () => call('PUT', `/users/${id}/reset_password_failure_lockout`, {}, asAdmin)
  const wrong = async (times: number) => {
    for (let i = 0; i < times; i += 1) t.same((await signIn(email, 'wrong password')).body, refusal)
  }
  await wrong(2)
  t.same(await lockout(id), { is_locked_out: false, expires_at: null })
  t.equal((await signIn(email)).body.success, true)
  await wrong(2)
  t.same((await reset()).body.data, { result: 'not_locked_out' })
  await wrong(2)
  t.equal((await signIn(email)).body.success, true, 'the reset has cleared the count')
  await wrong(3)
  const { is_locked_out, expires_at } = await lockout(id)
  t.equal(is_locked_out, true)
  t.match(expires_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30$/, 'in the zone of the organization')
  const minutes = (Date.parse(expires_at) - Date.now()) / 60_000
  t.ok(minutes > 25 && minutes <= 30.1, `it lasts ${minutes} minutes`)
  const until = (await stored(id)).locked_until
  await wrong(1)
  t.same((await signIn(email)).body, refusal, 'also with the right password')
  t.same((await stored(id)).locked_until, until, 'tries while locked out do not prolong it')
  t.same((await reset()).body.data, { result: 'lockout_cleared' })
  t.same((await reset()).body.data, { result: 'not_locked_out' })
  t.equal((await signIn(email)).body.success, true)
})

t.test('a lockout ends by itself, and the count begins anew', async (t) => {
  const { id, email } = await newUser()
  const over = { locked_until: new Date(Date.now() - 1_000), password_failures: 3 }
  await collections.users.updateOne({ _id: id }, { $set: over })
  t.same(await lockout(id), { is_locked_out: false, expires_at: null })
  await signIn(email, 'wrong password')
  t.match(await stored(id), { password_failures: 1, locked_until: null })
  await collections.users.updateOne({ _id: id }, { $set: over })
  t.equal((await signIn(email)).body.success, true)
  t.match(await stored(id), { password_failures: 0, locked_until: null })
})

t.test('tries in parallel get no more guesses than tries in a row', async (t) => {
  const { id, email } = await newUser()
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => signIn(email, `wrong password ${i}`)),
  )
  t.ok(answers.every((answer) => answer.body.error_code === 'not_authorized'))
  t.match(await stored(id), { password_failures: 3 })
  t.equal((await lockout(id)).is_locked_out, true)
  t.same((await signIn(email)).body, refusal)
})

t.test('a new password counts at once, the old one is wrong', async (t) => {
  const { id, email } = await newUser()
  const user = { password1: 'another password', password2: 'another password' }
  t.equal((await call('PUT', `/users/${id}`, { user }, asAdmin)).body.success, true)
  t.same((await signIn(email)).body, refusal)
  t.equal((await signIn(email, 'another password')).body.success, true)
})

t.test('every try costs a hash and a write, also for an unknown user', async (t) => {
  const known = await newUser()
  const foreign = await newUser({}, {} as typeof asAdmin)
  const countUnknownSignIns = async () =>
    (await collections.counters.findOne({ _id: 'sign_in_for_nobody' }))?.next ?? 0
  const before = await countUnknownSignIns()
  await signIn('unknown@example.com')
  await signIn(foreign.email)
  t.equal(await countUnknownSignIns(), before + 2)
  await signIn(known.email, 'wrong password')
  t.ok((await stored(known.id)).password_tried_at)
  const metrics = service.processes['control-plane']!.ready.metrics['control_plane']!
  const cpuSeconds = async () =>
    Number(/^process_cpu_seconds_total (\S+)$/m.exec(await (await fetch(metrics)).text())![1])
  const cost = async (email: string): Promise<number> => {
    const began = await cpuSeconds()
    for (let i = 0; i < 5; i += 1) await signIn(email, 'wrong password')
    return (await cpuSeconds()) - began
  }
  const ofKnown = await cost(known.email)
  // Processor time, which a busy machine doesn't stretch much; without the hash it would be a tenth.
  for (const email of ['unknown@example.com', foreign.email]) {
    const seconds = await cost(email)
    t.ok(seconds > ofKnown / 4, `${email}: ${seconds} s, a user's ${ofKnown} s`)
  }
})

t.test('many concurrent sign-ins wait, and the service answers others meanwhile', async (t) => {
  const { email } = await newUser()
  const many = Promise.all(Array.from({ length: 12 }, () => signIn(email)))
  let isOver = false
  void many.finally(() => (isOver = true))
  let others = 0
  await until(
    'the sign-ins',
    async () => {
      others += (await call('GET', '/organizations', undefined, asAdmin)).body.success === true ? 1 : 0
      return isOver
    },
    (over) => over,
    60_000,
  )
  t.ok((await many).every((answer) => answer.body.success === true))
  t.ok(others > 0)
})

/** The requests that the control plane has and hasn't answered. */
async function inFlight(): Promise<number> {
  const metrics = service.processes['control-plane']!.ready.metrics['control_plane']!
  return metricValue(await (await fetch(metrics)).text(), 'rollcall_http_requests_in_flight')
}

t.test('a stop refuses the sign-ins that wait', async (t) => {
  const { email } = await newUser()
  // More than three slots serve in the 3 s that requests have to get one: 190 of each of four organizations. A user of
  // another organization costs a hash too.
  const keys = await Promise.all(
    [1, 2, 3, 4].map(async (number) => {
      const { id } = await post('/organizations', { organization: { name: `Example ${number}` } })
      return (await post(`/organizations/${id}/api_keys`, { api_key: { name: 'admin' } })).key as string
    }),
  )
  // A stop that uses up its time for requests has little left to end with code 0.
  const { code, controlPlane, statuses } = await repeatWhile(
    async (attempt) => {
      const controlPlane =
        attempt === 1 ? service.processes['control-plane']! : await service.start('control-plane')
      const many = keys.flatMap((key) => Array.from({ length: 190 }, () => signIn(email, password, { key })))
      const answers = Promise.allSettled(many)
      let answered = 0
      for (const one of many) void one.finally(() => (answered += 1)).catch(() => undefined)
      await until('all requests', inFlight, (count) => count + answered >= many.length)
      const code = await controlPlane.stop()
      const statuses = (await answers).map((one) => (one.status === 'fulfilled' ? one.value.status : 0))
      return { code, controlPlane, statuses }
    },
    ({ controlPlane }) => stopTookTooLong(controlPlane),
  )
  t.equal(code, 0)
  t.ok(statuses.includes(503), statuses.join(' '))
  // A busy machine may need more than the 7 s after which a stop closes all connections.
  t.same(
    statuses.filter((status) => ![0, 200, 503].includes(status)),
    [],
  )
  t.notMatch(controlPlane.log(), /Mongo|"level":"(error|fatal)"/)
})
