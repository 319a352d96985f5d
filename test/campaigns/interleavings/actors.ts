import type { Answer, Json } from '../../helpers/service.ts'
import { UploadRefused } from '../../../shared/storage/uploads/upload-refused.ts'
import {
  batch,
  enforce,
  fail,
  failAndFinalize,
  finalize,
  start,
  startAndWrite,
  step,
  takeOver,
  takeOverAndFinish,
  takeOverAndLease,
  type Other,
} from './engine-acts.ts'
import { isSmall, replacement, upload, uploaded, type Fixture, type FixtureName } from './fixtures.ts'
import type { Side } from './side.ts'
import type { How } from './sweep.ts'

/** What one process does by itself. The answer of a request is kept, and the promise in it is checked at the end. */
type Act = (side: Side, fixture: Fixture, other: Other) => Promise<Answer | boolean>

const importPath = (fixture: Fixture) => `/subscriber_imports/${fixture.importId}`
const listPath = (fixture: Fixture) => `/mailing_lists/${fixture.listId}`
const post = (path: (fixture: Fixture) => string, body?: (fixture: Fixture) => Json): Act => {
  return (side, fixture) => side.call('POST', path(fixture), body?.(fixture))
}
const put = (path: (fixture: Fixture) => string, body: (fixture: Fixture) => Json): Act => {
  return (side, fixture) => side.call('PUT', path(fixture), body(fixture))
}

/** False when the FTP server would refuse it. */
const ftp = (work: (side: Side, organizationId: number) => Promise<void>): Act => {
  return (side, { organizationId }) =>
    work(side, organizationId).then(
      () => true,
      (error: unknown) => {
        if (error instanceof UploadRefused) return false
        throw error
      },
    )
}

export const actors = {
  // Engines.
  start: (side) => start(side),
  'start and write': (side) => startAndWrite(side),
  step: (side) => step(side),
  batch: (side) => batch(side, 1),
  'last batch': (side) => batch(side),
  finalize: (side) => finalize(side),
  fail: (side) => fail(side),
  'take over': (side) => takeOver(side),
  'take over and finish': (side, _fixture, other) => takeOverAndFinish(side, other),
  'take over and lease': (side, _fixture, other) => takeOverAndLease(side, other),
  'fail and finalize': (side) => failAndFinalize(side),
  'enforce limits': (side) => enforce(side),
  // FTP servers.
  'complete upload': ftp((side, id) => upload(side, id, uploaded.file, replacement)),
  'rename upload over it': ftp((side, id) => side.uploadDirectory(id).rename(uploaded.other, uploaded.file)),
  'rename upload away': ftp((side, id) => side.uploadDirectory(id).rename(uploaded.file, uploaded.away)),
  // Requests.
  pause: post((fixture) => `${importPath(fixture)}/pause`),
  unpause: post((fixture) => `${importPath(fixture)}/unpause`),
  cancel: post((fixture) => `${importPath(fixture)}/cancel`),
  'create import': (side, fixture) =>
    side.call(
      'POST',
      `${listPath(fixture)}/subscriber_imports`,
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
    (fixture) => `${listPath(fixture)}/subscribers`,
    () => ({ subscriber: { email: 'person30@example.com', custom_fields: { No: '30', Color: 'own' } } }),
  ),
  'create another subscriber': post(
    (fixture) => `${listPath(fixture)}/subscribers`,
    () => ({ subscriber: { email: 'other@example.com', custom_fields: { No: '555555' } } }),
  ),
  'update subscriber': put(
    (fixture) => `${listPath(fixture)}/subscribers/${fixture.absentId}`,
    () => ({ subscriber: { status: 'active', custom_fields: { Spare: 'changed' } } }),
  ),
  'unsubscribe subscriber': put(
    (fixture) => `${listPath(fixture)}/subscribers/${fixture.absentId}`,
    () => ({ subscriber: { status: 'unsubscribed' } }),
  ),
  'delete subscriber': (side, fixture) =>
    side.call('DELETE', `${listPath(fixture)}/subscribers/${fixture.absentId}`),
  'delete imported subscriber': (side, fixture) =>
    side.call('DELETE', `${listPath(fixture)}/subscribers/${fixture.presentId}`),
  'trigger autoresponders': post(
    (fixture) => `${listPath(fixture)}/subscribers/${fixture.presentId}/trigger_autoresponders`,
    () => ({}),
  ),
  limit: put(
    (fixture) => `/organizations/${fixture.organizationId}`,
    () => ({ organization: { subscriber_limit: 3 } }),
  ),
  'primary key': put(listPath, (fixture) => ({
    mailing_list: { primary_key_custom_field_id: fixture.fields.number },
  })),
  'delete field': (side, fixture) =>
    side.call('DELETE', `${listPath(fixture)}/custom_fields/${fixture.fields.color}`),
  'delete unmapped field': (side, fixture) =>
    side.call('DELETE', `${listPath(fixture)}/custom_fields/${fixture.fields.spare}`),
  'rename field': put(
    (fixture) => `${listPath(fixture)}/custom_fields/${fixture.fields.color}`,
    () => ({ custom_field: { name: 'Colour' } }),
  ),
  'rename list': put(listPath, (fixture) => ({ mailing_list: { name: `Renamed ${fixture.name}` } })),
  take: post(
    () => '/outbox/take',
    () => ({ outbox: { limit: 5, lease_seconds: 60 } }),
  ),
  acknowledge: post(
    () => '/outbox/acknowledge',
    ({ taken }) => ({ outbox: { messages: taken } }),
  ),
  'take and acknowledge': async (side) => {
    const taken = await side.call('POST', '/outbox/take', { outbox: { limit: 5, lease_seconds: 60 } })
    // Its reply was lost: it has no messages.
    if (taken.body.success !== true) return taken
    const messages = taken.body.data.map(({ id, lease_token }: Json) => ({ id, lease_token }))
    return side.call('POST', '/outbox/acknowledge', { outbox: { messages } })
  },
} satisfies Record<string, Act>
export type ActorName = keyof typeof actors

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
  'delete unmapped field',
  'rename field',
  'rename list',
  'take',
  'acknowledge',
  'take and acknowledge',
]
export const uploads: ActorName[] = ['complete upload', 'rename upload over it', 'rename upload away']
const whileItWorks: ActorName[] = ['pause', 'cancel', 'fail']

/** The actors that have something to do in a fixture; the others are refused, or find nothing. */
export const actorsIn: Record<FixtureName, ActorName[]> = {
  scheduled: ['start', 'pause', 'cancel', ...always],
  splitting: ['step', ...whileItWorks, ...always],
  importing: ['last batch', ...whileItWorks, ...always],
  begun: ['batch', 'last batch', ...whileItWorks, 'limit', 'create subscriber', 'delete field'],
  written: ['step', ...whileItWorks, ...always, 'unsubscribe subscriber'],
  ended: ['finalize', 'create import', 'start', 'delete field', 'limit', 'update subscriber'],
  finalized: ['create import', 'delete field', 'rename field'],
  paused: ['unpause', 'cancel', 'limit', 'delete field'],
  'paused before the end': ['unpause', 'cancel', 'create subscriber', 'update subscriber', 'delete field'],
  'nearly full': [
    'batch',
    'last batch',
    ...whileItWorks,
    'limit',
    'create another subscriber',
    'update subscriber',
    'delete imported subscriber',
  ],
  'upload scheduled': ['start', 'pause', 'cancel', ...uploads],
  'upload pinned': ['step', ...whileItWorks, ...uploads],
  'upload on disk': ['step', ...whileItWorks, ...uploads],
  'first import': ['last batch', ...whileItWorks, 'primary key', 'create another subscriber', 'delete field'],
  'dead engine': ['take over', 'pause', 'cancel', 'limit', 'enforce limits'],
  'small scheduled': ['start and write', 'pause', 'cancel', ...always],
  'small splitting': ['step', ...whileItWorks, 'create import', 'limit', 'delete unmapped field'],
  'small first import': [
    'start and write',
    'pause',
    'cancel',
    'primary key',
    'create import',
    'create another subscriber',
    'delete field',
  ],
  'small upload scheduled': ['start and write', 'pause', 'cancel', ...uploads],
}

/** They write a small import whole. */
const wholeActs: ActorName[] = ['start and write', 'step']
const engineActs: ActorName[] = [
  'start',
  'start and write',
  'step',
  'batch',
  'last batch',
  'finalize',
  'fail',
]
const successors: ActorName[] = ['take over and finish', 'take over and lease', 'fail and finalize']
/** The first one may resume after its import was finalized. */
export const isSuccessor = (actor: ActorName): boolean => successors.includes(actor)

/** Whether the first one may have ended a small import without removing its files. */
export const mayLeaveFiles = (fixture: FixtureName, first: ActorName): boolean =>
  isSmall(fixture) && wholeActs.includes(first)

/**
 * What the second one does while the first is stopped: any other actor's work, and that of the engine that is judged
 * dead. Requests beside a small import meet each other as in the other fixtures, and are left out.
 */
export const secondsOf = (fixture: FixtureName, first: ActorName, how: How): ActorName[] => {
  const all = actorsIn[fixture].filter(
    (second) => !isSmall(fixture) || wholeActs.includes(first) || wholeActs.includes(second),
  )
  return how === 'hold' && engineActs.includes(first) ? [...all, ...successors] : all
}
