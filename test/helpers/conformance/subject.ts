import type { Endpoint } from '../../../control-plane/api/endpoint.ts'
import { callerOf, type Answer, type Json } from '../service.ts'
import type { Row, Sent } from './row.ts'
import type { World } from './world.ts'
import { changedAt } from './wrong-values.ts'
import { present } from '../present.ts'

/** An endpoint with its row and its part of the description. */
export class Subject {
  readonly described: Endpoint
  readonly row: Row
  readonly world: World
  /** The whole description, and its part about the endpoint. */
  readonly document: Json
  readonly operation: Json
  /** The refusals that the description lists, and those that came. */
  readonly documented: ReadonlySet<string>
  readonly seen = new Set<string>()

  constructor(described: Endpoint, row: Row, world: World, document: Json) {
    this.described = described
    this.row = row
    this.world = world
    this.document = document
    const path = `/svc/api/v2${described.path.replaceAll(/:(\w+)/g, '{$1}')}`
    this.operation = document.paths[path][described.method]
    this.documented = documentedIn(this.operation)
  }

  get params(): string[] {
    return [...this.described.path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  }

  /** The description of the body, for endpoints that have one. */
  get body() {
    return present(this.described.body, `the body of ${this.described.path}`)
  }

  good(): Promise<Sent> {
    return Promise.resolve(this.row.good(this.world))
  }

  /** The key of a caller with exactly this right. */
  async weakestKey(): Promise<string> {
    const { needs } = this.described
    if (typeof needs !== 'string') return this.world.holderOf(...needs.permission)
    return {
      every_key: this.world.uploadsKey,
      any_key: this.world.keyWithoutPermissions,
      admin: this.world.admin,
      system_admin: this.world.system,
    }[needs]
  }

  async send(
    sent: Sent,
    options: { key?: string | null; method?: string; base?: string } = {},
  ): Promise<Answer> {
    const path = this.described.path.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(String(sent.params?.[name] ?? '1')).replaceAll('%2C', ','),
    )
    const key = options.key === null ? null : (options.key ?? sent.key ?? (await this.weakestKey()))
    const method = options.method ?? this.described.method.toUpperCase()
    const { headers = {} } = sent
    const more = { key, headers }
    const { base } = options
    const call = base === undefined ? this.world.service.call : callerOf(() => base)
    const answer = await call(method, `${path}${sent.query ?? ''}`, sent.body, more)
    if (answer.body?.success === false) this.seen.add(keyOf(answer.status, answer.body))
    return answer
  }

  /** A body whose document is changed at one path. */
  bodyWith(body: unknown, path: string[], value: unknown): unknown {
    const { wrapper } = this.body
    return changedAt(body, wrapper === null ? path : [wrapper, ...path], value)
  }
}

/** Refusals that any endpoint may give: too many requests, an internal error, a database that is away. */
const ofEveryEndpoint = ['429', '500', '503']

function documentedIn(operation: Json): Set<string> {
  const responses = Object.entries<Json>(operation.responses).filter(
    ([status]) => !ofEveryEndpoint.includes(status),
  )
  const examples = responses.flatMap(([status, { content }]) =>
    Object.values<Json>(content?.['application/json']?.examples ?? {}).map(({ value }) => ({
      status,
      value,
    })),
  )
  return new Set(
    examples
      .filter(({ value }) => value.success === false)
      .map(({ status, value }) => keyOf(Number(status), value)),
  )
}

/** A refusal, ids, names and addresses apart. */
export function keyOf(status: number, body: Json): string {
  const message = String(body?.error_message)
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"')
    .replaceAll(/[^\s"]+@[^\s"]+/g, '…@…')
    .replaceAll(/\d+/g, '1')
  return `${status} ${body?.error_code}: ${message}`
}
