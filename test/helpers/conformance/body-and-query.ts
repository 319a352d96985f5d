import { bodySchema } from '../body-schema.ts'
import type { Test } from 'tap'
import type { Subject } from './subject.ts'
import { faultOf, checkTrials, refused, type Trial } from './verdicts.ts'
import { requiredKeysOf, wrongValuesOf } from './wrong-values.ts'

/** Bodies and queries of an endpoint, field by field, against its description. */

const brokenTexts = ['{', 'null', '[]', '"x"', '5', '{"a":1}{', '{"a":1,}', "{'a':1}", '\u{feff}{}x']

export async function readsItsBody(t: Test, subject: Subject): Promise<void> {
  const { wrapper, optional, isUpdate, isArray } = subject.body
  const good = await subject.good()
  const send = (body: unknown, headers: Record<string, string> = {}, key?: string) =>
    subject.send(
      { ...good, headers: { ...good.headers, ...headers }, body },
      key === undefined ? {} : { key },
    )
  const refuses = (body: unknown, code: string, names: string | RegExp, what: string): Trial => {
    // Callers other than system admins may send any value for fields that they cannot set.
    const isTheirs = subject.described.body?.forSystemAdmins?.some((name) => what.startsWith(`${name} =`))
    const key = isTheirs === true ? subject.world.system : undefined
    return async () => faultOf(await send(body, {}, key), code, names, what)
  }

  const unreadable: unknown[] = [...brokenTexts, ...(optional === true ? [] : [new Uint8Array()])]
  if (wrapper !== null)
    unreadable.push(
      {},
      { [wrapper]: null },
      { [wrapper]: isArray === true ? {} : [] },
      { [wrapper]: 'x' },
      { other: {} },
    )
  await checkTrials(
    t,
    unreadable.map((body) => refuses(body, 'invalid_request', '', JSON.stringify(body))),
    'bodies that are none',
  )
  refused(t, await send('{}', { 'content-type': 'text/plain' }), 'invalid_request', 'text/plain', 415)
  refused(t, await send('{}', { 'content-encoding': 'compress' }), 'invalid_request', 'compress', 415)
  refused(t, await send(`{"a":"${'x'.repeat(1_100_000)}"}`), 'invalid_request', 'over 1 MB', 413)
  if (subject.body.inlineText !== undefined)
    refused(t, await send(' '.repeat(16 * 2 ** 20 + 1)), 'invalid_request', 'over 16 MiB', 413)

  const whole = bodySchema(subject.document, subject.operation)
  const schema = wrapper === null ? whole : whole.properties[wrapper]
  const lenient = new Set(subject.row.lenientFields ?? [])
  const wrong = wrongValuesOf(subject.document, schema).map(({ path, value }) => ({
    name: path.join('.'),
    path,
    value,
  }))
  await checkTrials(
    t,
    wrong
      .filter(({ name }) => !lenient.has(name))
      .map(({ name, path, value }) => {
        const what = `${name} = ${JSON.stringify(value).slice(0, 40)}`
        return refuses(subject.bodyWith(good.body, path, value), 'validation_failed', name, what)
      }),
    'fields with a wrong value',
  )
  await checkTrials(
    t,
    (subject.body.faulty ?? []).map((keys) => {
      const changes = Object.entries(keys)
      const body = changes.reduce<unknown>(
        (at, [key, value]) => subject.bodyWith(at, isArray === true ? ['0', key] : [key], value),
        good.body,
      )
      return refuses(body, 'validation_failed', changes[0]![0], JSON.stringify(keys))
    }),
    'values that only the schema refuses',
  )
  if (wrapper !== null && isArray === true)
    refused(t, await send({ [wrapper]: [5] }), 'validation_failed', 'a record that is no hash')
  const absent = isUpdate === true ? [undefined] : [undefined, null]
  const required = requiredKeysOf(subject.document, schema)
  if (required.length > 0) {
    const empty = wrapper === null ? {} : { [wrapper]: {} }
    refused(t, await send(empty), 'validation_failed', 'an empty document')
  }
  await checkTrials(
    t,
    required.flatMap((path) =>
      absent.map((value) =>
        refuses(
          subject.bodyWith(good.body, path, value),
          'validation_failed',
          String(path.at(-1)),
          `no ${path.join('.')}`,
        ),
      ),
    ),
    'required fields',
  )
}

export async function readsItsQuery(t: Test, subject: Subject): Promise<void> {
  const good = await subject.good()
  const trials: Trial[] = []
  const refuses = (query: string, name: string): void => {
    trials.push(async () =>
      faultOf(await subject.send({ ...good, query }), 'invalid_request', new RegExp(`^${name} `), query),
    )
  }
  for (const { in: where, name, schema } of subject.operation.parameters) {
    if (where !== 'query') continue
    if (name === 'page_token') refuses('?page_token=x', name)
    if (name === 'page') refuses('?page=1&page_token=x', 'page_token')
    refuses(`?${name}=1&${name}=1`, name)
    const isInteger = schema.type === 'integer'
    // A blank value is none.
    const wrong = schema.enum !== undefined ? ['nonsense'] : isInteger ? [...wrongIntegers] : []
    // A `per_page` above the maximum counts as that.
    if (isInteger && name !== 'per_page') wrong.push(longInteger)
    for (const value of wrong) refuses(`?${name}=${value}`, name)
  }
  await checkTrials(t, trials, 'parameters with a wrong value')
}

const wrongIntegers = ['x', '-1', '1.5']
const longInteger = '9'.repeat(40)
