import type { Answer, Json } from '../../helpers/service.ts'
import { batch, enforce, fail, moveDueReactions, settle, start, step, takeOver } from './engine-acts.ts'
import type { Scene, SceneName } from './scenes.ts'
import type { Side } from './side.ts'

/** What one process does by itself; the answer of a request is kept for what it promised. */
export type Act = (side: Side, scene: Scene) => Promise<Answer | boolean>

const importPath = (scene: Scene) => `/subscriber_imports/${scene.importId}`
const listPath = (scene: Scene) => `/mailing_lists/${scene.listId}`
const post = (path: (scene: Scene) => string, body?: (scene: Scene) => Json): Act => {
  return (side, scene) => side.call('POST', path(scene), body?.(scene))
}
const put = (path: (scene: Scene) => string, body: (scene: Scene) => Json): Act => {
  return (side, scene) => side.call('PUT', path(scene), body(scene))
}

export const actors = {
  // Engines.
  start: (side) => start(side),
  step: (side) => step(side),
  batch: (side) => batch(side, 1),
  'last batch': (side) => batch(side),
  settle: (side) => settle(side),
  fail: (side) => fail(side),
  'take over': (side) => takeOver(side),
  'enforce limits': (side) => enforce(side),
  'move reactions': (side) => moveDueReactions(side),
  // Requests.
  pause: post((scene) => `${importPath(scene)}/pause`),
  unpause: post((scene) => `${importPath(scene)}/unpause`),
  cancel: post((scene) => `${importPath(scene)}/cancel`),
  'create import': (side, scene) =>
    side.call(
      'POST',
      `${listPath(scene)}/subscriber_imports`,
      {
        subscriber_import: {
          column_mapping: ['email', 'Color', 'No'],
          file_format: { csv_has_headers: false },
          file_source: { type: 'json', content: 'late@example.com,blue,777777\n' },
        },
      },
      { headers: { 'idempotency-key': 'one import only' } },
    ),
  'create subscriber': post(
    (scene) => `${listPath(scene)}/subscribers`,
    () => ({ subscriber: { email: 'person30@example.com', custom_fields: { No: '30', Color: 'own' } } }),
  ),
  'create another subscriber': post(
    (scene) => `${listPath(scene)}/subscribers`,
    () => ({ subscriber: { email: 'other@example.com', custom_fields: { No: '555555' } } }),
  ),
  'update subscriber': put(
    (scene) => `${listPath(scene)}/subscribers/${scene.absentId}`,
    () => ({ subscriber: { status: 'active', custom_fields: { Spare: 'changed' } } }),
  ),
  'delete subscriber': (side, scene) =>
    side.call('DELETE', `${listPath(scene)}/subscribers/${scene.absentId}`),
  'delete imported subscriber': (side, scene) =>
    side.call('DELETE', `${listPath(scene)}/subscribers/${scene.presentId}`),
  'trigger autoresponders': post(
    (scene) => `${listPath(scene)}/subscribers/${scene.presentId}/trigger_autoresponders`,
    () => ({}),
  ),
  limit: put(
    (scene) => `/organizations/${scene.organizationId}`,
    () => ({ organization: { subscriber_limit: 3 } }),
  ),
  'primary key': put(listPath, (scene) => ({
    mailing_list: { primary_key_custom_field_id: scene.fields.number },
  })),
  'delete field': (side, scene) =>
    side.call('DELETE', `${listPath(scene)}/custom_fields/${scene.fields.color}`),
  'rename field': put(
    (scene) => `${listPath(scene)}/custom_fields/${scene.fields.color}`,
    () => ({ custom_field: { name: 'Colour' } }),
  ),
  'rename list': put(listPath, (scene) => ({ mailing_list: { name: `Renamed ${scene.name}` } })),
  take: post(
    () => '/outbox/take',
    () => ({ outbox: { limit: 5, lease_seconds: 60 } }),
  ),
  'take and acknowledge': async (side) => {
    const taken = await side.call('POST', '/outbox/take', { outbox: { limit: 5, lease_seconds: 60 } })
    const messages = (taken.body.data as Json[]).map(({ id, lease_token }) => ({ id, lease_token }))
    return side.call('POST', '/outbox/acknowledge', { outbox: { messages } })
  },
} satisfies Record<string, Act>
export type ActorName = keyof typeof actors
export const actorNames = Object.keys(actors) as ActorName[]

const always: ActorName[] = [
  'create import',
  'create subscriber',
  'create another subscriber',
  'update subscriber',
  'delete subscriber',
  'delete imported subscriber',
  'trigger autoresponders',
  'limit',
  'delete field',
  'rename field',
  'rename list',
  'move reactions',
  'take',
  'take and acknowledge',
]
const whileItWorks: ActorName[] = ['pause', 'cancel', 'fail']

/** What has something to do in a scene; the others are refused, or find nothing. */
export const actorsIn: Record<SceneName, ActorName[]> = {
  scheduled: ['start', 'pause', 'cancel', ...always],
  splitting: ['step', ...whileItWorks, ...always],
  importing: ['last batch', ...whileItWorks, ...always],
  begun: ['batch', 'last batch', ...whileItWorks, 'limit', 'create subscriber', 'delete field'],
  written: ['step', ...whileItWorks, ...always],
  ended: ['settle', 'create import', 'start', 'delete field', 'limit', 'update subscriber'],
  paused: ['unpause', 'cancel', 'limit', 'delete field'],
  'first import': ['last batch', ...whileItWorks, 'primary key', 'create another subscriber', 'delete field'],
  'dead engine': ['take over', 'pause', 'cancel', 'limit', 'enforce limits'],
}
