import type { PlantedFault, TestRun } from './planted-fault.ts'

/**
 * Faults of what has no list of its own: maintenance, reactions, callbacks, the command line, FTP clients that die.
 */

const imports: TestRun = { files: ['test/integration/imports.test.ts'] }
const effects: TestRun = { files: ['test/integration/effects.test.ts'] }
const stores: TestRun = { files: ['test/integration/stores.test.ts'] }
const callbacks: TestRun = { files: ['test/integration/callbacks.test.ts'] }
const commandLine: TestRun = { files: ['test/integration/command-line.test.ts'] }
const uploadsOfImports: TestRun = { files: ['test/integration/imports-of-uploads.test.ts'] }
const ftpUploads: TestRun = { files: ['test/integration/ftp-uploads.test.ts'] }
const failureSummary: TestRun = { files: ['test/e2e/failure-summary.test.ts'] }
const characterSets: TestRun = { files: ['test/e2e/character-sets.test.ts'] }
const rows: TestRun = { files: ['test/e2e/differential.test.ts'] }
const commandLineImports: TestRun = { files: ['test/integration/command-line-imports.test.ts'] }
const outbox: TestRun = { files: ['test/integration/outbox.test.ts'] }
const clientUrl: TestRun = { files: ['test/unit/api/given-url.test.ts'] }
const monitoring: TestRun = { files: ['test/e2e/monitoring.test.ts'] }
const mails: TestRun = { files: ['test/integration/mails.test.ts'] }
const access: TestRun = { files: ['test/integration/access.test.ts'] }
const lostChunk: TestRun = { files: ['test/e2e/lost-chunk.test.ts'] }

const transcoder = 'shared/csv/transcoder.ts'
const characterSet = 'shared/csv/character-set.ts'
const beginning = 'shared/csv/file-beginning.ts'
const split = 'engine/stages/split/split-import.ts'
const draft = 'engine/stages/write/batch-draft.ts'
const lanes = 'engine/scheduler/chunk-lanes.ts'
const takeOver = 'engine/scheduler/take-over.ts'
const maintenance = 'engine/jobs/maintenance.ts'
const deletedFields = 'engine/store/deleted-fields.ts'
const dispatcher = 'engine/jobs/callbacks/callback-dispatcher.ts'
const client = 'control-plane/cli/api-client.ts'

export const restFaults: readonly PlantedFault[] = [
  {
    name: 'the position of a page in another order counts one page only',
    file: 'control-plane/api/paging.ts',
    text: 'const position = byId ? reader.last?._id : skipped + reader.count',
    replacement: 'const position = byId ? reader.last?._id : reader.count',
    tests: [access],
  },
  {
    name: 'the mail of a reactivated subscriber belongs to its earlier subscription',
    file: 'engine/stages/write/batch-draft.ts',
    text: 'reactivations: update.reactivations ?? reactivations ?? 0,',
    replacement: 'reactivations: reactivations ?? 0,',
    tests: [effects],
  },
  {
    name: 'the last step of an import waits for space on the disk',
    file: 'engine/scheduler/dispatcher.ts',
    text: "spaceProblem === null ? free : free.filter(({ state }) => state === 'importing')",
    replacement: 'spaceProblem === null ? free : []',
    tests: [{ files: ['test/integration/staged-quota.test.ts'] }],
  },
  {
    name: 'messages that were taken before come after later ones',
    file: 'control-plane/resources/outbox/service.ts',
    text: 'a.due_at.getTime() - b.due_at.getTime() || a.id - b.id',
    replacement: 'b.due_at.getTime() - a.due_at.getTime() || a.id - b.id',
    tests: [outbox],
  },
  {
    name: 'credentials go to another port of the same host',
    file: 'shared/net/download.ts',
    text: 'const staysAtOrigin = to.origin === from.url.origin && isHttp(to)',
    replacement: 'const staysAtOrigin = to.hostname === from.url.hostname && isHttp(to)',
    tests: [{ files: ['test/integration/guarded-urls.test.ts'] }],
  },
  {
    name: 'half a character is kept in memory that is reused',
    file: transcoder,
    text: 'rest = Buffer.from(bytes.subarray(end))',
    replacement: 'rest = bytes.subarray(end)',
    tests: [characterSets],
  },
  {
    name: 'a digit is never a part of a longer character',
    file: transcoder,
    text: 'firstTrailByte = 0x30',
    replacement: 'firstTrailByte = 0x3a',
    tests: [characterSets],
  },
  {
    name: 'U+FFFD of GB18030 is undecodable',
    file: transcoder,
    text: 'bytes.includes(replacementInGb18030) ?',
    replacement: 'bytes === null ?',
    tests: [characterSets],
  },
  {
    name: 'a pair of UTF-16 is cut between two pieces',
    file: transcoder,
    text: 'return isHalfPair ? end - 2 : end',
    replacement: 'return end',
    tests: [characterSets],
  },
  {
    name: 'a byte that windows-1250 leaves undefined is a control',
    file: characterSet,
    text: "'windows-1250': [0x81, 0x83, 0x88, 0x90, 0x98]",
    replacement: "'windows-1250': [0x81, 0x83, 0x88, 0x90]",
    tests: [characterSets],
  },
  {
    name: 'a file with a UTF-8 mark is read as the request says',
    file: beginning,
    text: 'if (!isTranscoded(requested)) return asIs(requested)',
    replacement: "if (requested !== 'utf-16') return asIs(requested)",
    tests: [rows],
  },
  {
    name: 'a line that sets the separator counts as none',
    file: beginning,
    text: 'skipped_lines: (line === null ? 0 : 1) + skipLines',
    replacement: 'skipped_lines: skipLines',
    tests: [rows],
  },
  {
    name: 'seven of eight valid sequences make UTF-8',
    file: beginning,
    text: 'beyondAscii * 9',
    replacement: 'beyondAscii * 8',
    tests: [rows],
  },
  {
    name: 'the reactions of all chunks begin with the same id',
    file: split,
    text: 'ids.firstReactionId + before * reactionsPerRecord(plan)',
    replacement: 'ids.firstReactionId',
    tests: [effects],
  },
  {
    name: 'each chunk has one id of a reaction for each record',
    file: split,
    text: 'ids.firstReactionId + before * reactionsPerRecord(plan)',
    replacement: 'ids.firstReactionId + before',
    tests: [effects],
  },
  {
    name: 'each record has one id of a reaction',
    file: draft,
    text: 'this.#chunk.first_reaction_id + position * reactionsPerRecord',
    replacement: 'this.#chunk.first_reaction_id + position',
    tests: [effects],
  },
  {
    name: 'ids of reactions are drawn for the records alone',
    file: split,
    text: 'const reactions = result.records * reactionsPerRecord(plan)',
    replacement: 'const reactions = Math.min(reactionsPerRecord(plan), 1) * result.records',
    tests: [effects],
  },
  {
    name: 'an engine counts only the faults of the batches of its own claim',
    file: 'engine/stages/write/chunk-run.ts',
    text: 'this.#faults = chunk.faults ?? []',
    replacement: 'this.#faults = []',
    tests: [failureSummary],
  },
  {
    name: 'a batch counts its faults without those before it',
    file: 'engine/stages/write/chunk-run.ts',
    text: 'this.#faults = this.faultsWith(faults) ?? this.#faults',
    replacement: 'void faults',
    tests: [failureSummary],
  },
  {
    name: 'the example of a fault is that of its last chunk',
    file: 'shared/store/chunks.ts',
    text: "first: { $min: '$faults.first' },",
    replacement: "first: { $last: '$faults.first' },",
    tests: [stores],
  },
  {
    name: 'examples outlive the logs',
    file: 'shared/store/imports.ts',
    text: "logs_purged_at: '$$NOW', faults: withoutExamples }",
    replacement: "logs_purged_at: '$$NOW' }",
    tests: [imports],
  },
  {
    name: 'a walk by key ends after its first piece',
    file: 'shared/store/key-ranges.ts',
    text: 'if (boundary === null) return\n',
    replacement: 'return\n',
    tests: [imports],
  },
  {
    name: 'the values of a deleted field are walked from where another walk ended',
    file: deletedFields,
    text: "{ $unset: 'removed_to' },",
    replacement: '',
    tests: [imports],
  },
  {
    name: 'a walk for a deleted field notes its end before its first piece',
    file: deletedFields,
    text: '{ $max: { removed_to: range.$lt } }',
    replacement: '{ $max: { removed_to: `${field.mailing_list_id};` } }',
    tests: [imports],
  },
  {
    name: 'a walk for a deleted field begins anew each time',
    file: maintenance,
    text: '$gte: field.removed_to ?? list.$gte',
    replacement: '$gte: list.$gte',
    tests: [imports],
  },
  {
    name: 'a chunk that always fails is tried for ever',
    file: lanes,
    text: 'countsAsAttempt: !report.retryable',
    replacement: 'countsAsAttempt: false',
    tests: [lostChunk],
  },
  {
    name: 'a chunk that always fails is tried once more, and blamed on a lost batch',
    file: lanes,
    text: '(!report.retryable && chunk.attempt >= maxChunkClaims)',
    replacement: 'false',
    tests: [lostChunk],
  },
  {
    name: 'a chunk that is taken away without a batch is claimed for ever',
    file: lanes,
    text: 'chunk.attempt > maxChunkClaims || chunk.deaths >= maxDeaths',
    replacement: 'chunk.deaths >= maxDeaths',
    tests: [lostChunk],
  },
  {
    name: 'failed rows are kept for ever',
    file: maintenance,
    text: 'await deleteRange(collections.failures, idsOfImport(id))\n',
    replacement: '\n',
    tests: [imports],
  },
  {
    name: 'outcomes of rows are kept for ever',
    file: maintenance,
    text: 'await deleteRange(collections.outcomes, idsOfImport(id))\n',
    replacement: '\n',
    tests: [imports],
  },
  {
    name: 'imports count as purged before their logs are gone',
    file: maintenance,
    text: 'for (const id of await listImportsWithOldLogs(collections)) {\n',
    replacement:
      'for (const id of await listImportsWithOldLogs(collections)) {\n        await markLogsPurged(database, id)\n',
    tests: [imports],
  },
  {
    name: 'pins of ended imports stay',
    file: maintenance,
    text: 'for (const id of pinned) if (!needed.has(id)) await uploads.unpin(id)\n',
    replacement: '\n',
    tests: [uploadsOfImports, imports],
  },
  {
    name: 'pins of waiting imports are removed',
    file: maintenance,
    text: 'if (!needed.has(id)) await uploads.unpin(id)',
    replacement: 'await uploads.unpin(id)',
    tests: [uploadsOfImports, imports],
  },
  {
    name: 'pins of imports with old staged files alone are looked at',
    file: maintenance,
    text: '[...old, ...pinned]',
    replacement: 'old',
    tests: [uploadsOfImports, imports],
  },
  {
    name: 'staged files of waiting imports are removed',
    file: maintenance,
    text: 'if (needed.has(id)) continue\n',
    replacement: '\n',
    tests: [imports],
  },
  {
    name: 'what was removed from the staging still counts against the quota',
    file: maintenance,
    text: 'await removeImportEntry(collections, id)\n',
    replacement: '\n',
    tests: [imports],
  },
  {
    name: 'what a killed engine left in GridFS stays',
    file: maintenance,
    text: 'await staging.sweep()',
    replacement: 'void staging',
    tests: [uploadsOfImports, imports],
  },
  {
    name: 'copies that a killed FTP server left stay on the disk',
    file: 'shared/storage/uploads/upload-names.ts',
    text: '(unfinished|copy|clock)',
    replacement: '(unfinished)',
    tests: [uploadsOfImports],
  },
  {
    name: 'the copy that an FTP server makes is removed under its hands',
    file: 'shared/storage/uploads/disk-uploads.ts',
    text: '(upload === null ? maxStrayAgeMs : maxUnfinishedAgeMs)',
    replacement: '(upload === null ? 0 : maxUnfinishedAgeMs)',
    tests: [uploadsOfImports],
  },
  {
    name: 'a step under the name of an engine that is forgotten stays held',
    file: takeOver,
    text: 'await releaseStepsOfEngine(collections, engineId, { died: true })\n',
    replacement: '\n',
    tests: [stores],
  },
  {
    name: 'steps of unregistered engines are not searched for',
    file: takeOver,
    text: '...(await listEnginesWithSteps(collections))',
    replacement: '',
    tests: [stores],
  },
  {
    name: 'what an engine claims after it was cleared up stays held',
    file: takeOver,
    text: 'await releaseLeases(database, engine, { died: false, log })\n          continue',
    replacement: 'continue',
    tests: [stores],
  },
  {
    name: 'a step that a cleared engine claims stays held',
    file: takeOver,
    text: 'const steps = await releaseStepsOfEngine(database.collections, _id, { died })',
    replacement: 'const steps = died ? await releaseStepsOfEngine(database.collections, _id, { died }) : 0',
    tests: [stores],
  },
  {
    name: 'callbacks go to private addresses that their URL spells out',
    file: 'engine/jobs/callbacks/send-callback.ts',
    text: 'refuseLiteral(guard, target)\n',
    replacement: '\n',
    tests: [callbacks],
  },
  {
    name: 'callback URLs with private addresses are taken',
    file: 'control-plane/resources/subscriber-imports/create/client-url.ts',
    text: 'return problem === null ? null : `can',
    replacement: 'return problem === null || schemes.length === 2 ? null : `can',
    tests: [callbacks],
  },
  {
    name: 'callback slots go to the organization that waits longest',
    file: dispatcher,
    text: 'best === undefined || attempts(each) < attempts(best) ? each : best',
    replacement: 'best ?? each',
    tests: [callbacks],
  },
  {
    name: 'an organization may have all callback slots that are free',
    file: 'engine/scheduler/slots.ts',
    text: 'Math.min(maxPerOrganization, total - taken)',
    replacement: 'Math.min(maxPerOrganization, total)',
    tests: [callbacks],
  },
  {
    name: 'a host may have all callback slots of its organization',
    file: dispatcher,
    text: '.filter(({ queue }) => (hosts.get(queueHost(queue)) ?? 0) < maxInFlightOfHost)',
    replacement: '.filter(() => maxInFlightOfHost > hosts.size - hosts.size)',
    tests: [callbacks],
  },
  {
    name: 'the command line lists the first page alone',
    file: client,
    text: 'pages = num_pages ?? 1',
    replacement: 'pages = Math.min(1, num_pages ?? 1)',
    tests: [commandLine],
  },
  {
    name: 'the command line lists the first page again and again',
    file: client,
    text: 'page=${page}`',
    replacement: 'page=${page - page}`',
    tests: [commandLine],
  },
  {
    name: 'paging drops what else was asked for',
    file: client,
    text: "${path}${path.includes('?') ? '&' : '?'}page=",
    replacement: "${path.split('?')[0]}?page=",
    tests: [commandLine],
  },
  {
    name: 'who watches a failed import is told that it went well',
    file: 'control-plane/cli/commands/imports.ts',
    text: "if (state !== 'finished') return exitCodes.failed",
    replacement: "if (state === 'cancelled') return exitCodes.failed",
    tests: [commandLine],
  },
  {
    name: 'an import of which every row failed ends like one that went well',
    file: 'control-plane/cli/commands/imports.ts',
    text: '? exitCodes.rowsFailed : exitCodes.done',
    replacement: '? exitCodes.done : exitCodes.done',
    tests: [commandLine],
  },
  {
    name: 'a refusal by the service ends like wrong usage',
    file: 'control-plane/cli/main.ts',
    text: 'error instanceof CommandFailure ? error.exitCode : exitCodes.failed',
    replacement: 'error instanceof CommandFailure ? error.exitCode : exitCodes.wrongUsage',
    tests: [commandLine],
  },
  {
    name: 'wrong usage ends like a refusal',
    file: 'control-plane/cli/failures.ts',
    text: '{ exitCode: exitCodes.wrongUsage }',
    replacement: '{ exitCode: exitCodes.failed }',
    tests: [commandLine],
  },
  {
    name: 'Ctrl-C ends like a success',
    file: 'control-plane/cli/commands/imports.ts',
    text: 'return exitCodes.interrupted',
    replacement: 'return exitCodes.done',
    tests: [commandLine],
  },
  {
    name: 'a log that breaks off ends like a success',
    file: 'control-plane/cli/commands/imports.ts',
    text: 'throw new CommandFailure(`the log broke off before its end: ${errorMessage(error)}`)',
    replacement: 'void error',
    tests: [commandLine],
  },
  {
    name: 'half a file of a killed client is published',
    file: 'ftp/transfers.ts',
    text: 'await Promise.all([outliveData(signal), upload.prepare()])\n      signal.throwIfAborted()',
    replacement: 'await upload.prepare()',
    tests: [ftpUploads],
  },
  {
    name: 'half a file of a connection that breaks is published',
    file: 'ftp/transfers.ts',
    text: "    throw transferAborted(error)\n  } finally {\n    signal.removeEventListener('abort', abortSocket)",
    replacement: "    void error\n  } finally {\n    signal.removeEventListener('abort', abortSocket)",
    tests: [ftpUploads],
  },
  {
    name: 'the end of a session breaks no upload off',
    file: 'ftp/interruption.ts',
    text: 'this.#hangUp.abort()\n    this.#transfer?.abort()',
    replacement: 'this.#hangUp.abort()',
    tests: [ftpUploads],
  },
  {
    name: 'an unsubscription by token overwrites the time of an earlier removal',
    file: 'control-plane/resources/subscribers/unsubscribe/service.ts',
    text: "if (removal === 'begins' || existing.remove_time === undefined)",
    replacement: "if (removal === 'begins' || existing.remove_time !== undefined)",
    tests: [effects],
  },
  {
    name: 'an exit code is that of failed rows where exactly as many failed as may',
    file: 'control-plane/cli/commands/imports.ts',
    text: 'failed * 10_000 > Math.round(failOn * 100) * rows',
    replacement: 'failed * 10_000 >= Math.round(failOn * 100) * rows',
    tests: [commandLineImports],
  },
  {
    name: 'a watched import is given up at a 429',
    file: 'control-plane/cli/watch.ts',
    text: '(error.status >= 500 || error.status === 429)',
    replacement: 'error.status >= 500',
    tests: [commandLineImports],
  },
  {
    name: 'half of a list that is absent causes the warning of more than half',
    file: 'engine/stages/finish/deactivation.ts',
    text: 'if (absent * 2 <= active) return absent',
    replacement: 'if (absent * 2 < active) return absent',
    tests: [imports],
  },
  {
    name: 'an upload stays pinned by an import that ended before its split',
    file: 'engine/stages/finish/finalize-import.ts',
    text: 'await Promise.all([staging.removeImport(importId), uploads.unpin(importId)])',
    replacement: 'await staging.removeImport(importId)',
    tests: [stores],
  },
  {
    name: 'a dry run that is resumed within a chunk forgets what it has used of the limit',
    file: 'engine/stages/write/chunk-quota.ts',
    text: 'this.#used = options.chunk.quota_used',
    replacement: 'this.#used = 0',
    tests: [lostChunk],
  },
  {
    name: 'an engine that misses its files leads',
    file: 'engine/store/engines.ts',
    text: 'sort: { sees_files: -1, number: 1 }',
    replacement: 'sort: { number: 1 }',
    tests: [stores],
  },
  {
    name: 'a chunk takes the rest of the limit for final while others have reserved it',
    file: 'shared/store/subscriber-quota.ts',
    text: 'isLast: reservedByOthers === 0 && reserved === free',
    replacement: 'isLast: reserved === free',
    tests: [stores],
  },
  {
    name: 'an old token beside the valid one acknowledges',
    file: 'shared/store/outbox.ts',
    text: 'acknowledged.has(`${id} ${lease?.token}`)',
    replacement: 'acknowledged.has(`${id} ${lease?.token}`) || found.length > 0',
    tests: [outbox],
  },
  {
    name: 'an upload into the database is published without its last bytes',
    file: 'shared/storage/uploads/grid-upload.ts',
    text: '    this.#send()\n    await this.#sending\n    this.#throwFailure()\n',
    replacement: '    this.#send()\n    await this.#sending\n',
    tests: [stores],
  },
  {
    name: 'a password with an @ is masked by half',
    file: 'shared/runtime/logger.ts',
    text: ":[^/?#]*@/i, '$1:***@')",
    replacement: ":[^/?#@]*@/i, '$1:***@')",
    tests: [clientUrl],
  },
  {
    name: 'a due dry run counts as waiting for its list',
    file: 'shared/store/import-stats.ts',
    text: 'locked.has(entry.mailing_list_id) && !entry.dry_run',
    replacement: 'locked.has(entry.mailing_list_id)',
    tests: [stores],
  },
  {
    name: 'the metric of downloaded bytes adds running totals',
    file: 'engine/stages/obtain/download.ts',
    text: "metrics.bytes('download', bytes - progress['download.bytes_received'])",
    replacement: "metrics.bytes('download', bytes)",
    tests: [monitoring],
  },
  {
    name: 'a numbered page of imports skips ended ones beside active ones',
    file: 'control-plane/resources/subscriber-imports/list/service.ts',
    text: '.skip(Math.max(0, skip - activeTotal))',
    replacement: '.skip(skip)',
    tests: [imports],
  },
  {
    name: 'a template keeps the name of a special sending rule beside the id of another',
    file: 'control-plane/resources/campaign-templates/delivery.ts',
    text: 'if (id !== undefined && id !== null) return { special_sending_rule_name: null }',
    replacement: 'if (id !== undefined && id !== null) return {}',
    tests: [mails],
  },
  {
    name: 'all keys of an organization share one bound of requests',
    file: 'control-plane/middleware/rate-limit.ts',
    text: 'String(requestLocals(response).caller.keyId)',
    replacement: 'String(requestLocals(response).caller.organizationId)',
    tests: [access],
  },
  {
    name: 'the command line sends one autoresponder for both',
    file: 'control-plane/cli/import-options.ts',
    text: 'trigger_updated: autoresponder(flags.autoresponderUpdated)',
    replacement: 'trigger_updated: autoresponder(flags.autoresponderNew)',
    tests: [commandLineImports],
  },
  {
    name: 'the metric of download attempts takes failures for refusals',
    file: 'engine/stages/obtain/download.ts',
    text: "error.retryable ? 'failed' : 'refused'",
    replacement: "error.retryable ? 'refused' : 'failed'",
    tests: [monitoring],
  },
  {
    name: 'an import without a record counts as one of which every row failed',
    file: 'engine/stages/finish/finalize-import.ts',
    text: "state !== 'finished' || totals.failed === 0 || totals.failed !== recordsIn(totals)",
    replacement: "state !== 'finished' || totals.failed !== recordsIn(totals)",
    tests: [monitoring],
  },
  {
    name: 'queues that are paused are searched',
    file: 'shared/store/outbox.ts',
    text: '.find<Running>({ ...filter, paused: false }, {',
    replacement: '.find<Running>(filter, {',
    tests: [outbox],
  },
]
