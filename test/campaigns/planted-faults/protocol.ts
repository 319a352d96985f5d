import type { PlantedFault, TestRun } from './planted-fault.ts'

/** Faults of the guards in docs/protocol.md. */

const stores: TestRun = { files: ['test/integration/stores.test.ts'] }
const concerns: TestRun = { files: ['test/integration/concerns.test.ts'] }
const laggingMembers: TestRun = { files: ['test/e2e/lagging-members.test.ts'] }
const fences: TestRun = { files: ['test/e2e/fences.test.ts'] }
const effects: TestRun = { files: ['test/integration/effects.test.ts'] }
const quota: TestRun = { files: ['test/integration/staged-quota.test.ts'] }
const subscribers: TestRun = { files: ['test/integration/subscribers.test.ts'] }
const outbox: TestRun = { files: ['test/integration/outbox.test.ts'] }
const races: TestRun = { files: ['test/e2e/request-races.test.ts'] }
/** The interleavings whose titles the regular expression matches. */
const interleaved = (titles: string): TestRun => ({
  files: ['test/e2e/interleavings.test.ts'],
  settings: { ROLLCALL_INTERLEAVINGS: titles },
})

const chunks = 'shared/store/chunks.ts'
const steps = 'shared/store/import-steps.ts'
const imports = 'shared/store/imports.ts'
const fence = 'shared/store/fence.ts'
const messages = 'shared/store/outbox.ts'
const places = 'shared/store/subscriber-quota.ts'
const creation = 'control-plane/resources/subscriber-imports/service.ts'
const leases = 'shared/store/leases.ts'

export const protocolFaults: readonly PlantedFault[] = [
  {
    name: 'a finalization does not wait for leased chunks',
    file: chunks,
    text: "{ import_id: importId, state: { $in: ['ready', 'running'] } },\n    ofOneMoment",
    replacement: "{ import_id: importId, state: 'ready' },\n    ofOneMoment",
    tests: [interleaved('importing: last batch stopped before .* then fail and finalize$')],
  },
  {
    name: 'a finalization takes chunks from their holders',
    file: chunks,
    text: "updateMany({ import_id: importId, state: 'ready' }, { $set: { state: 'done' } })",
    replacement: "updateMany({ import_id: importId, state: { $ne: 'done' } }, { $set: { state: 'done' } })",
    tests: [stores],
  },
  {
    name: 'the progress of a chunk is written without the token',
    file: chunks,
    text: "{ _id: chunk._id, state: 'running', token: chunk.token, next_record: from },",
    replacement: "{ _id: chunk._id, state: 'running', next_record: from },",
    tests: [interleaved('importing: last batch stopped before command [4-9], then take over and lease')],
  },
  {
    name: 'the progress of a chunk is written from anywhere',
    file: chunks,
    text: "{ _id: chunk._id, state: 'running', token: chunk.token, next_record: from },",
    replacement: "{ _id: chunk._id, state: 'running', token: chunk.token },",
    tests: [stores],
  },
  {
    name: 'a batch that lost its chunk is written all the same',
    file: 'engine/stages/write/batch-writer.ts',
    text: "if (!isOurs) throw new BatchAbandoned('the chunk has another holder')",
    replacement: 'void isOurs',
    tests: [interleaved('importing: last batch stopped before .* then limit')],
  },
  {
    name: 'a held chunk is claimed',
    file: chunks,
    text: "{ import_id: _id, state: 'ready', fence: { $not: { $gt: fence ?? 0 } } },",
    replacement: "{ import_id: _id, state: { $ne: 'done' }, fence: { $not: { $gt: fence ?? 0 } } },",
    tests: [stores],
  },
  {
    name: 'a chunk is claimed by who has not read the last fence',
    file: chunks,
    text: "{ import_id: _id, state: 'ready', fence: { $not: { $gt: fence ?? 0 } } },",
    replacement: "{ import_id: _id, state: 'ready', ...(fence === -1 ? { fence } : {}) },",
    tests: [stores],
  },
  {
    name: 'quota is recorded for an engine that lost the chunk',
    file: chunks,
    text: "{ _id: chunk._id, state: 'running', token: chunk.token },\n    [{ $set: { places_held",
    replacement: "{ _id: chunk._id, state: 'running' },\n    [{ $set: { places_held",
    tests: [interleaved('nearly full: last batch stopped before command [4-9], then take over and lease')],
  },
  {
    name: 'a chunk is given back by who lost it',
    file: chunks,
    text: "{ _id: lease.chunkId, state: 'running', token: lease.token },",
    replacement: "{ _id: lease.chunkId, state: 'running' },",
    tests: [stores],
  },
  {
    name: 'a chunk that is not expired is taken over',
    file: chunks,
    text: "{ _id, state: 'running', token, $expr: { $lt: ['$lease_until', '$$NOW'] } },",
    replacement: "{ _id, state: 'running' },",
    tests: [stores],
  },
  {
    name: 'absent subscribers of a range are counted twice',
    file: chunks,
    text: "{ _id: chunk._id, state: 'done', deactivated_to: chunk.deactivated_to },",
    replacement: "{ _id: chunk._id, state: 'done' },",
    tests: [stores],
  },
  {
    name: 'a step that was paused or taken over keeps deactivating',
    file: 'engine/stages/finish/deactivation.ts',
    text: '  if (!isLeased || !isOurs) throw stepLost(run)',
    replacement: '  if (!isOurs) throw stepLost(run)',
    tests: [interleaved('written: step stopped before .* then pause')],
  },
  {
    name: 'a held step is claimed',
    file: steps,
    text: '      state,\n      step: null,\n      settled: false,',
    replacement: '      state,\n      settled: false,',
    tests: [interleaved('splitting: step stopped before command [1-3], then take over and lease')],
  },
  {
    name: 'the holder of a step is not asked for its token',
    file: steps,
    text: "{ _id: step.id, state: step.state, 'step.token': step.token },",
    replacement: '{ _id: step.id, state: step.state, step: { $ne: null } },',
    tests: [interleaved('splitting: step stopped before command [3-9], then take over and lease')],
  },
  {
    name: 'a step of a paused import writes',
    file: steps,
    text: "{ _id: step.id, state: step.state, 'step.token': step.token },",
    replacement: "{ _id: step.id, 'step.token': step.token },",
    tests: [stores],
  },
  {
    name: 'a step that was taken over is given back by its old holder',
    file: steps,
    text: "updateOne({ _id: id, 'step.token': token }, { $set: { step: null } })",
    replacement: 'updateOne({ _id: id }, { $set: { step: null } })',
    tests: [interleaved('splitting: step stopped before command [3-9], then take over and lease')],
  },
  {
    name: 'a failed download is counted twice',
    file: steps,
    text: "      'step.token': step.token,\n      'download.attempts': attempts - 1,",
    replacement: "      'step.token': step.token,",
    tests: [stores],
  },
  {
    name: 'a step that moves is taken over',
    file: steps,
    text: "$expr: { $lt: ['$step.moved_at', { $subtract: ['$$NOW', bounds.stalledMs] }] },",
    replacement: "$expr: { $lte: ['$step.moved_at', '$$NOW'] },",
    tests: [stores],
  },
  {
    name: 'an import is started that is paused',
    file: imports,
    text: "{ _id: id, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } },\n      [{ $set: started }]",
    replacement: "{ _id: id, $expr: { $lte: ['$begins_at', '$$NOW'] } },\n      [{ $set: started }]",
    tests: [stores],
  },
  {
    name: 'an import is started before its time',
    file: imports,
    text: "{ _id: id, state: 'scheduled', $expr: { $lte: ['$begins_at', '$$NOW'] } },\n      [{ $set: started }]",
    replacement: "{ _id: id, state: 'scheduled' },\n      [{ $set: started }]",
    tests: [stores],
  },
  {
    name: 'two imports have a list',
    file: imports,
    text: "holds_list: { $cond: ['$options.dry_run', '$$REMOVE', true] },",
    replacement: "holds_list: '$$REMOVE',",
    tests: [stores],
  },
  {
    name: 'a pause is no fence',
    file: imports,
    text: '  if (moved !== null) await fenceChunks(context, moved)\n',
    replacement: '',
    tests: [stores],
  },
  {
    name: 'an import is failed by who lost its step',
    file: imports,
    text: "{ _id: step.id, state: { $in: [...workingStates] }, 'step.token': step.token },",
    replacement: '{ _id: step.id, state: { $in: [...workingStates] } },',
    tests: [stores],
  },
  {
    name: 'a cancelled import becomes failed',
    file: imports,
    text: "{ _id: step.id, state: { $in: [...workingStates] }, 'step.token': step.token },",
    replacement: "{ _id: step.id, 'step.token': step.token },",
    tests: [stores],
  },
  {
    name: 'an import is failed by who lost the chunk',
    file: imports,
    text: 'if (!(await releaseFailedChunk(collections, session, held))) return false',
    replacement: 'await releaseFailedChunk(collections, session, held)',
    tests: [stores],
  },
  {
    name: 'totals that are fixed are fixed again',
    file: imports,
    text: '{ _id: id, state: { $in: [...endedStates] }, totals: null },',
    replacement: '{ _id: id, state: { $in: [...endedStates] } },',
    tests: [stores],
  },
  {
    name: 'the list of an ended import stays held',
    file: imports,
    text: "    { $unset: 'holds_list' },\n",
    replacement: '',
    tests: [fences],
  },
  {
    name: 'an import is settled without its totals',
    file: imports,
    text: '{ _id: id, state: { $in: [...endedStates] }, totals: { $ne: null } },',
    replacement: '{ _id: id, state: { $in: [...endedStates] } },',
    tests: [stores],
  },
  {
    name: 'imports that failed no longer keep a field or the primary key',
    file: imports,
    text: '$or: [{ state: { $in: [...unfinishedStates] } }, { holds_list: true }],',
    replacement: 'state: { $in: [...unfinishedStates] },',
    tests: [fences],
  },
  {
    name: 'a fence leaves what runs',
    file: fence,
    text: "state: { $in: ['ready', 'running'] }, fence: { $not: { $gte: number } } },",
    replacement: "state: 'ready', fence: { $not: { $gte: number } } },",
    tests: [stores],
  },
  {
    name: 'a fence leaves what is ready',
    file: fence,
    text: "state: { $in: ['ready', 'running'] }, fence: { $not: { $gte: number } } },",
    replacement: "state: 'running', fence: { $not: { $gte: number } } },",
    tests: [stores],
  },
  {
    name: 'a batch that hangs before its commit is not ended',
    file: fence,
    text: '      engines.flatMap((engine) => engine.session_ids),',
    replacement: '      engines.flatMap(() => []),',
    tests: [fences],
  },
  {
    name: 'a step that hangs before its commit is not ended',
    file: fence,
    text: 'const names = [...ofChunks, ...ofSteps.map(({ step }) => step?.engine_id ?? null)].filter(',
    replacement: 'void ofSteps\n  const names = [...ofChunks].filter(',
    tests: [stores],
  },
  {
    name: 'a cancel whose request died is never enforced',
    file: fence,
    text: "state: { $in: ['paused', 'cancelled'] } }, { projection",
    replacement: "state: 'paused' }, { projection",
    tests: [stores],
  },
  {
    name: 'running chunks go on by the old limit',
    file: places,
    text: '  await preemptChunks(\n    context,\n    writing.map(({ _id }) => _id),\n  )',
    replacement: '  void preemptChunks',
    tests: [fences, effects],
  },
  {
    name: 'a limit whose request died is never enforced',
    file: places,
    text: '  for (const { _id, limit_change: change } of pending)\n    await enforceLimit(context, { organizationId: _id, change: change! })',
    replacement: '',
    tests: [stores],
  },
  {
    name: 'a limit whose request died loses its mark and is not enforced',
    file: places,
    text: '    await enforceLimit(context, { organizationId: _id, change: change! })',
    replacement:
      "    await organizations.updateOne({ _id, limit_change: change! }, { $unset: { limit_change: '' } })",
    tests: [stores],
  },
  {
    name: 'a limit is not enforced on imports that failed',
    file: places,
    text: "{ settled: false, organization_id: organizationId, state: { $ne: 'scheduled' } },",
    replacement:
      "{ settled: false, organization_id: organizationId, finished_at: null, state: { $ne: 'scheduled' } },",
    tests: [stores],
  },
  {
    name: 'two chunks reserve the last of the quota',
    file: places,
    text: '  if (reserved > own) await bumpQuotaRevision(collections, session, chunk.organization_id)\n',
    replacement: '',
    tests: [interleaved('nearly full: last batch stopped before .* then last batch')],
  },
  {
    name: 'a request takes quota that chunks have reserved',
    file: places,
    text: "if (active + (reserved[0]?.places ?? 0) + amount > limit) return 'busy'",
    replacement: 'void held',
    tests: [interleaved('nearly full: last batch stopped before .* then create another subscriber')],
  },
  {
    name: 'two requests take the last place',
    file: places,
    text: "  await bumpQuotaRevision(collections, session, organizationId)\n  return 'taken'",
    replacement: "  return 'taken'",
    tests: [stores],
  },
  {
    name: 'batches wait for one member',
    file: 'engine/stages/write/transaction.ts',
    text: "writeConcern: { w: 'majority' } })",
    replacement: 'writeConcern: { w: 1 } })',
    tests: [concerns],
  },
  {
    name: 'transactions of requests wait for one member',
    file: 'shared/runtime/database.ts',
    text: "    readConcern: { level: 'snapshot' },\n    writeConcern: { w: 'majority' },",
    replacement: "    readConcern: { level: 'snapshot' },\n    writeConcern: { w: 1 },",
    tests: [concerns],
  },
  {
    name: 'single writes wait for one member',
    file: 'shared/runtime/database.ts',
    text: "readPreference: 'primary',\n  writeConcern: { w: 'majority' },",
    replacement: "readPreference: 'primary',\n  writeConcern: { w: 1 },",
    tests: [laggingMembers],
  },
  {
    name: 'batches read what no majority has',
    file: 'engine/stages/write/transaction.ts',
    text: "readConcern: { level: 'snapshot' }, writeConcern",
    replacement: "readConcern: { level: 'local' }, writeConcern",
    tests: [concerns],
  },
  {
    name: 'counts of an import are summed over what moves',
    file: chunks,
    text: "const ofOneMoment = { readConcern: { level: 'snapshot' } } as const",
    replacement: "const ofOneMoment = { readConcern: { level: 'majority' } } as const",
    tests: [concerns],
  },
  {
    name: 'totals are read before the sum over the chunks',
    file: chunks,
    text: `  for (const [id, sum] of await sumChunkCounts(collections, open)) counts.set(id, sum)
  const settled = await collections.imports
    .find({ _id: { $in: open }, totals: { $ne: null } }, { projection: { totals: 1 } })
    .toArray()
`,
    replacement: `  const settled = await collections.imports
    .find({ _id: { $in: open }, totals: { $ne: null } }, { projection: { totals: 1 } })
    .toArray()
  for (const [id, sum] of await sumChunkCounts(collections, open)) counts.set(id, sum)
`,
    tests: [stores],
  },
  {
    name: 'the reply to an earlier creation is read before a majority has it',
    file: creation,
    text: "          $expr: { $gt: ['$expires_at', '$$NOW'] },\n        })",
    replacement:
      "          $expr: { $gt: ['$expires_at', '$$NOW'] },\n        }, { readConcern: { level: 'local' } })",
    tests: [concerns],
  },
  {
    name: 'an import is created by what the list was before',
    file: creation,
    text: '{ _id: document.mailing_list_id, revision },',
    replacement: '{ _id: document.mailing_list_id },',
    tests: [interleaved('settled: create import stopped before .* then delete field')],
  },
  {
    name: 'a field is deleted under an import that failed and still writes',
    file: 'control-plane/resources/custom-fields/service.ts',
    text: '.find(stillWriting(list._id), {',
    replacement: '.find({ mailing_list_id: list._id, finished_at: null }, {',
    tests: [subscribers],
  },
  {
    name: 'who lost a split removes the files of its successor',
    file: 'engine/stages/split/split-import.ts',
    text: '  if (current?.partition !== partition) return\n',
    replacement: '',
    tests: [stores],
  },
  {
    name: 'who lost a copy removes the files of its successor',
    file: 'engine/stages/obtain/upload-directory.ts',
    text: 'await staging.remove(target).catch(() => undefined)',
    replacement: 'await staging.removeImport(document._id, { keep: [pin.reference] }).catch(() => undefined)',
    tests: [stores],
  },
  {
    name: 'reactions that are not queued any more are moved',
    file: 'engine/jobs/reactions/move-reactions.ts',
    text: "{ _id: { $in: still.map(({ _id }) => _id) }, state: 'queued' },\n        { $set: { state: 'due' } }",
    replacement: "{ _id: { $in: still.map(({ _id }) => _id) } },\n        { $set: { state: 'due' } }",
    tests: [stores],
  },
  {
    name: 'reactions that were sent are dropped',
    file: 'engine/jobs/reactions/move-reactions.ts',
    text: "{ _id: { $in: due.map(({ _id }) => _id) }, state: 'queued' },\n    { $set: { state: 'dropped' } }",
    replacement: "{ _id: { $in: due.map(({ _id }) => _id) } },\n    { $set: { state: 'dropped' } }",
    tests: [stores],
  },
  {
    name: 'messages are acknowledged without their token',
    file: messages,
    text: '({ _id, lease_token: token }) => token !== null && tokens.get(_id)?.has(token) === true,',
    replacement: '({ _id }) => tokens.has(_id),',
    tests: [stores],
  },
  {
    name: 'messages of another holder are removed',
    file: messages,
    text: '{ _id: { $in: messages.map(({ _id }) => _id) }, lease_token: { $in: tokens } },',
    replacement: '{ _id: { $in: messages.map(({ _id }) => _id) } },',
    tests: [stores],
  },
  {
    name: 'a message is taken twice',
    file: messages,
    text: "{ _id: { $in: ids }, state: 'ready' },",
    replacement: '{ _id: { $in: ids } },',
    tests: [outbox],
  },
  {
    name: 'messages of another holder are given back',
    file: messages,
    text: '{ _id: { $in: messages.map(({ _id }) => _id) }, lease_token: token },\n    { $set: unleased }',
    replacement: '{ _id: { $in: messages.map(({ _id }) => _id) } },\n    { $set: unleased }',
    tests: [stores],
  },
  {
    name: 'a callback is sent by two engines',
    file: 'engine/store/callbacks.ts',
    text: "[{ $set: { token, tried_at: '$$NOW', due_at: { $add: ['$$NOW', leaseMs] } } }],",
    replacement: "[{ $set: { token, tried_at: '$$NOW' } }],",
    tests: [{ files: ['test/integration/callbacks.test.ts'] }],
  },
  {
    name: 'a callback is delivered by who lost it',
    file: 'engine/store/callbacks.ts',
    text: "updateOne({ _id: importId, state: 'waiting', token }, [",
    replacement: "updateOne({ _id: importId, state: 'waiting' }, [",
    tests: [stores],
  },
  {
    name: 'the staged files of an ended import stay',
    file: 'engine/stages/finish/finalize-import.ts',
    text: 'await Promise.all([staging.removeImport(importId), uploads.unpin(importId)])',
    replacement: 'await Promise.all([uploads.unpin(importId)])',
    tests: [quota],
  },
  {
    name: 'a pin is not released',
    file: 'engine/stages/finish/finalize-import.ts',
    text: 'await Promise.all([staging.removeImport(importId), uploads.unpin(importId)])',
    replacement: 'await Promise.all([staging.removeImport(importId)])',
    tests: [interleaved('upload pinned: step stopped before command [23], then cancel')],
  },
  {
    name: 'an ended import stays in the quota',
    file: 'engine/stages/finish/finalize-import.ts',
    text: '    await quota.leave(document)\n',
    replacement: '    void quota\n',
    tests: [quota],
  },
  {
    name: 'the quota is passed by requests that meet',
    file: 'shared/store/staged-usage.ts',
    text: '          ...fits({ bytes, ...noFiles }, { bytes: limits.bytes, files: Infinity }),\n',
    replacement:
      '          ...(bytes < 0 ? fits({ bytes, ...noFiles }, { bytes: limits.bytes, files: Infinity }) : []),\n',
    tests: [stores],
  },
  {
    name: 'the counts of a list are moved outside of the transaction',
    file: 'shared/store/subscriber-counts.ts',
    text: '  await subscriberCounts.updateOne({ _id: stripeKey(moved.listId, stripe) }, moveOf(moved), {\n    session,\n',
    replacement:
      '  void session\n  await subscriberCounts.updateOne({ _id: stripeKey(moved.listId, stripe) }, moveOf(moved), {\n',
    tests: [stores],
  },
  {
    name: 'reactions of a subscriber who leaves by an import stay',
    file: 'engine/stages/write/batch-writer.ts',
    text: '    await dropReactionsInList(collections, session, listId, leaving)\n',
    replacement: '    void dropReactionsInList\n    void leaving\n',
    tests: [effects],
  },
  {
    name: 'a registration that others took for dead is renewed',
    file: leases,
    text: 'updateOne({ _id, dead: false }, { $set: { ...change, ...lease } }),',
    replacement: 'updateOne({ _id }, { $set: { ...change, ...lease } }),',
    tests: [stores],
  },
  {
    name: 'a registration of an earlier election is not made whole',
    file: leases,
    text: '{ dead: false, lease_election: { $ne: now.election } },',
    replacement: '{ dead: true, lease_election: { $ne: now.election } },',
    tests: [stores],
  },
  {
    name: 'a registration whose lease runs on is taken for dead',
    file: leases,
    text: '{ dead: false, lease_election: election, lease_until: { $lt: time } },',
    replacement: '{ dead: false, lease_election: election },',
    tests: [stores],
  },
  {
    name: 'processes are judged right after a stall of the majority',
    file: leases,
    text: '  if (!canJudge()) return\n',
    replacement: '',
    tests: [stores],
  },
  {
    name: 'an engine is registered before its sessions',
    file: 'engine/store/engines.ts',
    text: '{ ...engine, number }',
    replacement: '{ ...engine, number, session_ids: [] }',
    tests: [{ files: ['test/e2e/lost-processes.test.ts'] }],
  },
  {
    name: 'renewals overtake each other',
    file: 'shared/store/process-registration.ts',
    text: "return this.#renewals.runExclusive('renewal', () => this.#renewNow())",
    replacement: 'return this.#renewNow()',
    tests: [stores],
  },
  {
    name: 'an update in place is made however old its fields are',
    file: 'control-plane/store/subscribers.ts',
    text: '{ ...asSeen, $expr }',
    replacement: 'asSeen',
    tests: [stores],
  },
  {
    name: 'an engine that was taken over from is forgotten at once',
    file: leases,
    text: 'const forgetDeadMs = 120_000',
    replacement: 'const forgetDeadMs = 0',
    tests: [stores],
  },
  {
    name: 'an engine beside one of the same folder is not alone',
    file: 'engine/store/engines.ts',
    text: '{ folder: { $ne: folder }, dead: false, sees_files: { $ne: false } },',
    replacement: '{ dead: false, sees_files: { $ne: false } },',
    tests: [stores],
  },
  {
    name: 'a session is used before its registration',
    file: 'shared/runtime/session-pool.ts',
    text: 'await this.#saveIds?.()',
    replacement: 'void this.#saveIds?.().catch(() => undefined)',
    tests: [stores],
  },
  ...[
    ['who it is', 'const asSeen = { _id, status, confirmed: confirmed ?? { $exists: false } }'],
    ['for the status', 'const asSeen = { _id, id, confirmed: confirmed ?? { $exists: false } }'],
    ['for the confirmation', 'const asSeen = { _id, id, status }'],
  ].map(([what, replacement]) => ({
    name: `an update in place does not ask ${what}`,
    file: 'control-plane/store/subscribers.ts',
    text: 'const asSeen = { _id, id, status, confirmed: confirmed ?? { $exists: false } }',
    replacement: replacement!,
    tests: [races],
  })),
  {
    name: 'a change reads its subscriber outside of its transaction',
    file: 'control-plane/store/subscribers.ts',
    text: 'find(filterOf(address), { session }).limit(2)',
    replacement: 'find(filterOf(address)).limit(2)',
    tests: [races],
  },
  {
    name: 'a reaction is queued past a deletion at the same moment',
    file: 'control-plane/store/subscribers.ts',
    text: '...(options.reactions === undefined ? {} : { $inc: { reaction_requests: 1 } }),',
    replacement: '',
    tests: [races],
  },
  {
    name: 'absent subscribers are deactivated whatever became of them since they were read',
    file: 'engine/stages/finish/deactivation.ts',
    text: '{ _id: { $in: absent }, ...activeAtStart(document) },\n      { session, projection',
    replacement: '{ _id: { $in: absent } },\n      { session, projection',
    tests: [{ ...races, settings: { ROLLCALL_RACE_IMPORTS: '20' } }],
  },
]
