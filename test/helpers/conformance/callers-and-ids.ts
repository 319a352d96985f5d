import type { Test } from 'tap'
import { endpoints } from '../../../control-plane/endpoints.ts'
import type { Sent } from './row.ts'
import type { Subject } from './subject.ts'
import { faultOf, checkTrials, refused } from './verdicts.ts'

/** Checks which callers and methods an endpoint accepts, and which records its path reaches. */

export async function asksForCredential(t: Test, subject: Subject): Promise<void> {
  const { body } = subject.described
  const credentials = [null, '', 'Basic bm9ib2R5Om5vdGhpbmc=', 'Bearer x']
  for (const authorization of credentials) {
    const headers: Record<string, string> = authorization === null ? {} : { authorization }
    const key = authorization === null ? { key: null } : {}
    const answer = await subject.send({ headers, body: body && {} }, key)
    refused(t, answer, 'not_authorized', JSON.stringify(authorization), 401)
    t.equal(answer.headers.get('www-authenticate'), 'Basic realm="svc"')
  }
}

/**
 * The role comes before the record and the body: what is sent is wrong in both. That every other caller is refused too,
 * test/integration/who-sees-whose.test.ts holds.
 */
export async function refusesLesserRoles(t: Test, subject: Subject): Promise<void> {
  const { needs, body } = subject.described
  if (needs === 'every_key') return
  const wrong: Sent = body === undefined ? {} : { body: '{', headers: { 'content-type': 'text/plain' } }
  const answer = await subject.send(wrong, {
    key: needs === 'any_key' ? subject.world.uploadsKey : subject.world.keyWithoutPermissions,
  })
  refused(t, answer, 'not_authorized', JSON.stringify(needs), 403)
}

/** The refusal comes before the look-up of the record and the reading of the body. */
export async function refusesOtherSites(t: Test, subject: Subject): Promise<void> {
  for (const headers of [{ origin: 'https://elsewhere.example' }, { 'sec-fetch-site': 'cross-site' }])
    refused(t, await subject.send({ headers }), 'not_authorized', JSON.stringify(headers), 403)
}

export async function knowsItsMethods(t: Test, subject: Subject): Promise<void> {
  const answer = await subject.send({}, { method: 'PATCH' })
  refused(t, answer, 'invalid_request', 'PATCH', 405)
  const allowed = answer.headers.get('allow')?.split(', ') ?? []
  t.ok(allowed.includes(subject.described.method.toUpperCase()), `Allow: ${allowed.join()}`)
}

const idsThatNameNothing = [
  ...['999999999', 'abc', '0', '-1', '1e3', '1.5', '+1', '01', ' 1'],
  '9'.repeat(30),
  '$gt',
  '__proto__',
  'all',
]

export async function findsNothing(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  for (const name of subject.params) {
    const others =
      subject.row.otherParams?.[name] ?? idsThatNameNothing.map((value) => ({ value, code: 'not_found' }))
    // `all` in a path of its own is another endpoint.
    const isDocumented = ({ value }: { value: string }): boolean =>
      endpoints.some(({ path }) => path === subject.described.path.replace(`:${name}`, value))
    const trials = others
      .filter((other) => !isDocumented(other))
      .map(({ value, code }) => async () => {
        const answer = await subject.send({ ...good, params: { ...good.params, [name]: value } })
        if (code !== null) return faultOf(answer, code, '', value, subject.row.statuses?.[code])
        return answer.body?.success === true ? null : `${value}: ${answer.text}`
      })
    await checkTrials(t, trials, name)
  }
}

/** Records of other organizations look the same: test/integration/who-sees-whose.test.ts tries them all. */
export async function tellsMissingBeforeFaulty(t: Test, subject: Subject): Promise<void> {
  if (subject.row.isOwnOnly === true && subject.described.method === 'put') return
  const params = Object.fromEntries(subject.params.map((name) => [name, '999999999']))
  const { body } = await subject.send({ ...(await subject.good()), params, body: {} })
  t.equal(body.error_code, 'not_found', 'a missing record is told before a faulty body')
}
