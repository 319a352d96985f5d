import type { Test } from 'tap'
import type { Permission, PermissionNeed } from '../../../control-plane/api/endpoint.ts'
import { endpoints } from '../../../control-plane/endpoints.ts'
import type { Json } from '../service.ts'
import type { Sent } from './row.ts'
import type { Subject } from './subject.ts'
import { faultOf, checkTrials, refused, succeeded } from './verdicts.ts'
import { present } from '../present.ts'

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

const permissionsIn = ({ permission, or }: PermissionNeed): Permission[] =>
  or === undefined ? [permission] : [permission, or.permission]

/** The role comes before the record and the body: what is sent is wrong in both. */
export async function refusesLesserRoles(t: Test, subject: Subject): Promise<void> {
  const { needs, body } = subject.described
  const wrong: Sent = body === undefined ? {} : { body: '{', headers: { 'content-type': 'text/plain' } }
  const lesser =
    needs === 'any_key'
      ? []
      : needs === 'system_admin'
        ? [subject.world.keyWithoutPermissions, subject.world.admin]
        : typeof needs === 'string'
          ? [subject.world.keyWithoutPermissions]
          : [subject.world.keyWithoutPermissions, await subject.world.holderOfAllBut(permissionsIn(needs))]
  for (const key of lesser)
    refused(t, await subject.send(wrong, { key }), 'not_authorized', JSON.stringify(needs), 403)
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

export async function hidesFromStrangers(t: Test, subject: Subject): Promise<void> {
  const { needs } = subject.described
  if (subject.params.length === 0 || needs === 'system_admin') return
  // In the stranger's own directory any name may be created.
  if (subject.row.isOwnOnly === true && subject.described.method === 'put') return
  const answer = await subject.send(await subject.good(), { key: subject.world.foreigner })
  if (subject.row.strangerSeesNothing === true) {
    succeeded(t, answer, 'a stranger')
    t.same(answer.body.data, [])
    return
  }
  refused(t, answer, 'not_found', 'a stranger', subject.row.statuses?.['not_found'])
  const missing = Object.fromEntries(subject.params.map((name) => [name, '999999999']))
  // A missing record is told before a faulty body.
  const faulty = subject.described.body === undefined ? {} : { body: {} }
  const { body }: Json = await subject.send(
    { ...(await subject.good()), ...faulty, params: missing },
    { key: subject.world.foreigner },
  )
  t.equal(body.error_code, 'not_found', 'and a record that is not there looks the same')
}

/**
 * One of the path's two ids is of the caller's organization, the other of a foreign one. Both exist, but not
 * together. A system admin reaches both parents, so for that caller only the child is unknown.
 */
export async function findsOnlyWhatBelongsTogether(t: Test, subject: Subject): Promise<void> {
  const { world, row, params } = subject
  const child = params[1]!
  const others = row.otherParams?.[child]
  const ofMissing = others?.find(({ value }) => value === '999999999')
  // A path segment that is no id, such as a log's kind, means the same everywhere.
  if (others !== undefined && ofMissing === undefined) return
  for (const foreignName of params) {
    for (const key of [await subject.weakestKey(), world.admin, world.system]) {
      const own = await subject.good()
      const foreign = await row.good(world.foreign)
      const mixed = { ...own.params, [foreignName]: present(foreign.params?.[foreignName], foreignName) }
      const answer = await subject.send({ ...own, params: mixed }, { key })
      const isOfChild = foreignName === child || key === world.system
      const code = isOfChild && ofMissing !== undefined ? ofMissing.code : 'not_found'
      const who = key === world.system ? 'a system admin' : 'the organization'
      const what = `${foreignName} of another organization, for ${who}`
      if (code === null) t.same(answer.body?.data, [], what)
      else refused(t, answer, code, what)
    }
  }
}
