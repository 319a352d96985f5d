import type { PlantedFault, TestRun } from './planted-fault.ts'

/** Faults of authorization: permissions, revoked keys, and the filters by organization and list. */

const whoSeesWhose: TestRun = { files: ['test/integration/who-sees-whose.test.ts'] }
const credentialRules: TestRun = { files: ['test/integration/credential-rules.test.ts'] }

const resources = 'control-plane/resources'

type Fault = Pick<PlantedFault, 'name' | 'file' | 'text' | 'replacement'>

const faults: readonly Fault[] = [
  {
    name: 'the mailing lists of all organizations are listed',
    file: `${resources}/mailing-lists/service.ts`,
    text: 'collections.mailingLists,\n    { organization_id: organizationId },',
    replacement: 'collections.mailingLists,\n    {},',
  },
  {
    name: 'the API keys of all organizations are listed',
    file: `${resources}/api-keys/service.ts`,
    text: 'collections.apiKeys,\n    { organization_id: organizationId },',
    replacement: 'collections.apiKeys,\n    {},',
  },
  {
    name: 'the imports of all organizations are listed',
    file: `${resources}/subscriber-imports/routes.ts`,
    text: '{ organization_id: call.caller.organizationId }',
    replacement: '{}',
  },
  {
    name: "a list's imports are those of all lists",
    file: `${resources}/subscriber-imports/routes.ts`,
    text: '{ mailing_list_id: call.record._id }',
    replacement: '{}',
  },
  {
    name: 'the templates of all organizations are listed',
    file: `${resources}/campaign-templates/routes.ts`,
    text: '{ organization_id: call.caller.organizationId }',
    replacement: '{}',
  },
  {
    name: "a list's templates are those of all lists",
    file: `${resources}/campaign-templates/routes.ts`,
    text: '{ mailing_list_id: call.record._id }',
    replacement: '{}',
  },
  {
    name: 'the confirmation forms of all lists are listed',
    file: `${resources}/confirmation-forms/service.ts`,
    text: '{ mailing_list_id: listId },',
    replacement: '{ mailing_list_id: { $gte: Math.min(1, listId) } },',
  },
  {
    name: 'the custom fields of all lists are listed',
    file: `${resources}/custom-fields/service.ts`,
    text: 'collections.customFields,\n    { mailing_list_id: listId },',
    replacement: 'collections.customFields,\n    {},',
  },
  {
    name: 'the autoresponders of all lists are listed',
    file: `${resources}/autoresponders/service.ts`,
    text: '.find({ mailing_list_id: list._id }, { projection: { name: 1 } })',
    replacement: '.find({}, { projection: { name: 1 } })',
  },
  {
    name: 'the users of all organizations are listed to their admins',
    file: `${resources}/users/routes.ts`,
    text: "isOfAllOrganizations && call.caller.role === 'system_admin'",
    replacement: "isOfAllOrganizations && call.caller.role !== 'standard'",
  },
  {
    name: 'all organizations are listed to their admins',
    file: `${resources}/organizations/service.ts`,
    text: "call.caller.role === 'system_admin' ? {}",
    replacement: "call.caller.role !== 'standard' ? {}",
  },
  {
    name: 'a page token of all organizations counts for one',
    file: `${resources}/organizations/service.ts`,
    text: 'scope: `organizations ${JSON.stringify(filter)}`',
    replacement: "scope: 'organizations'",
  },
  {
    name: 'users are found by their email in all organizations',
    file: `${resources}/users/service.ts`,
    text: 'if (organizationId !== null) conditions',
    replacement: 'if (organizationId !== null && filters.email === undefined) conditions',
  },
  {
    name: 'a page token is that of the mailing lists of all organizations',
    file: `${resources}/mailing-lists/service.ts`,
    text: 'scope: `mailing lists of ${organizationId}`',
    replacement: 'scope: `mailing lists of ${organizationId > 0}`',
  },
  {
    name: 'an email names subscribers of all lists with another primary key',
    file: 'control-plane/store/subscribers.ts',
    text: '{ mailing_list_id: reference.listId, email_key: reference.emailKey }',
    replacement: '{ email_key: reference.emailKey }',
  },
  {
    name: 'an autoresponder may answer the opens of another organization',
    file: `${resources}/autoresponders/targets.ts`,
    text: 'id === null || known',
    replacement: "id === null || !field.endsWith('send_id') || known",
  },
  {
    name: 'the jobs of all organizations are listed',
    file: `${resources}/jobs/service.ts`,
    text: 'if (!scope.everywhere) conditions',
    replacement: 'if (!scope.everywhere && scope.unfinished) conditions',
  },
  {
    name: 'subscribers are searched on the lists of all organizations',
    file: `${resources}/subscribers/routes.ts`,
    text: 'call, { organization_id: call.caller.organizationId }',
    replacement: 'call, {}',
  },
  {
    name: 'an import is found by its id in any organization',
    file: `${resources}/subscriber-imports/service.ts`,
    text: 'if (document === null || !canAccess(caller, document.organization_id))',
    replacement: 'if (document === null || !canAccess(caller, caller.organizationId))',
  },
  {
    name: 'a template is found by its id in any organization',
    file: `${resources}/campaign-templates/service.ts`,
    text: '!canAccess(caller, found.organization_id)',
    replacement: '!canAccess(caller, caller.organizationId)',
  },
  {
    name: 'a user is found by its id in any organization',
    file: `${resources}/users/service.ts`,
    text: '!canAccess(caller, user.organization_id)',
    replacement: '!canAccess(caller, caller.organizationId)',
  },
  {
    name: 'a key is found by its id in any organization',
    file: `${resources}/api-keys/service.ts`,
    text: '    !canAccess(caller, key.organization_id) ||\n',
    replacement: '',
  },
  {
    name: "a key is found under any organization's path",
    file: `${resources}/api-keys/service.ts`,
    text: '(organizationId !== null && key.organization_id !== organizationId)',
    replacement: 'organizationId === 0',
  },
  {
    name: 'a custom field is found by its id on any list',
    file: `${resources}/custom-fields/service.ts`,
    text: '_id: pathId(text, noCustomField),\n    mailing_list_id: list._id,',
    replacement: '_id: pathId(text, noCustomField),',
  },
  {
    name: 'an autoresponder is found by its id on any list',
    file: `${resources}/autoresponders/service.ts`,
    text: '_id: pathId(id, noAutoresponder),\n      mailing_list_id: list._id,',
    replacement: '_id: pathId(id, noAutoresponder),',
  },
  {
    name: 'an autoresponder may answer one of another organization',
    file: `${resources}/autoresponders/targets.ts`,
    text: '{ _id: { $in: ids }, organization_id: document.organization_id },',
    replacement: '{ _id: { $in: ids } },',
  },
  {
    name: 'an autoresponder of another list is triggered',
    file: `${resources}/subscribers/trigger-autoresponders/choice.ts`,
    text: '{ mailing_list_id: listId, ...(ids.length > 0 ? { _id: { $in: ids } } : {}) },',
    replacement: 'ids.length > 0 ? { _id: { $in: ids } } : { mailing_list_id: listId },',
  },
  {
    name: 'a key is made for a user of another organization',
    file: `${resources}/api-keys/service.ts`,
    text: '{ _id: userId, organization_id: organizationId },',
    replacement: '{ _id: userId },',
  },
  {
    name: 'a primary key may be a field of another list',
    file: `${resources}/mailing-lists/service.ts`,
    text: '{ _id: fieldId, mailing_list_id: listId }',
    replacement: '{ _id: fieldId }',
  },
  {
    name: "an admin's outbox is that of all organizations",
    file: `${resources}/outbox/service.ts`,
    text: "caller.role === 'system_admin' ? 'all'",
    replacement: "caller.role !== 'standard' ? 'all'",
  },
  {
    name: "a message is acknowledged under another organization's lease",
    file: 'shared/store/outbox.ts',
    text: "...(scope === 'all' ? {} : { organization_id: scope.organizationId }),",
    replacement: "...(scope === 'all' ? {} : { organization_id: { $gt: 0 } }),",
  },
  {
    name: "events of another organization's autoresponders count",
    file: `${resources}/delivery-events/event-autoresponders.ts`,
    text: 'found.filter(({ organization_id: owner }) => canAccess(caller, owner))',
    replacement: 'found.filter(() => canAccess(caller, caller.organizationId))',
  },
  {
    name: 'a user of another organization signs in',
    file: `${resources}/users/sign-in.ts`,
    text: 'canAccess(caller, found.organization_id)',
    replacement: 'canAccess(caller, caller.organizationId)',
  },
  {
    name: 'the organization in a body counts for an admin too',
    file: 'control-plane/api/router.ts',
    text: "role === 'system_admin' ? [] : forSystemAdmins",
    replacement: "role !== 'standard' ? [] : forSystemAdmins",
  },
  {
    name: 'a path names any organization',
    file: 'control-plane/api/scope.ts',
    text: '!canAccess(caller, id) || ',
    replacement: '',
  },
  {
    name: 'a list is found by its id in any organization',
    file: 'control-plane/api/scope.ts',
    text: '!canAccess(caller, list.organization_id)',
    replacement: '!canAccess(caller, caller.organizationId)',
  },
  {
    name: 'who may read subscribers deletes them',
    file: `${resources}/subscribers/routes.ts`,
    text: "needs: permission('subscriber', 'delete')",
    replacement: "needs: permission('subscriber', 'read')",
  },
  {
    name: 'who imports reads the logs',
    file: `${resources}/subscriber-imports/routes.ts`,
    text: "needs: permission('subscriber', 'read'),",
    replacement: "needs: permission('subscriber', 'import'),",
  },
  {
    name: 'every key reports delivery events',
    file: `${resources}/delivery-events/routes.ts`,
    text: "needs: 'admin'",
    replacement: "needs: 'any_key'",
  },
  {
    name: 'who may only pause an autoresponder changes all of it',
    file: `${resources}/autoresponders/routes.ts`,
    text: 'refuseUnless(caller, mayUpdate)',
    replacement: "refuseUnless(caller, 'any_key')",
  },
  {
    name: 'who may only update creates a subscriber by a trigger',
    file: `${resources}/subscribers/trigger-autoresponders/service.ts`,
    text: 'refuseUnless(caller, needOfCreation)',
    replacement: "refuseUnless(caller, 'any_key')",
  },
  {
    name: 'a key is believed for a minute after it was revoked',
    file: 'control-plane/api/known-callers.ts',
    text: 'const keptMs = 2_000',
    replacement: 'const keptMs = 60_000',
  },
  {
    name: 'an inactive key is let in',
    file: 'shared/store/api-keys.ts',
    text: 'key_hash: hashKey(key, secret), active: true }',
    replacement: 'key_hash: hashKey(key, secret) }',
  },
  {
    name: 'a key of an inactive user is let in',
    file: 'shared/store/api-keys.ts',
    text: 'findOne({ _id: userId, active: true })',
    replacement: 'findOne({ _id: userId })',
  },
  {
    name: 'a key of a deleted user has its own role',
    file: 'shared/store/api-keys.ts',
    text: '  if (holder === null || holder === undefined) return null\n',
    replacement:
      '  if (holder === null || holder === undefined)\n    return { keyId, organizationId, role: key.role, permissions: {}, userId }\n',
  },
  {
    name: 'the organization beside a key is not compared',
    file: 'control-plane/api/router.ts',
    text: '(organizationId !== null && organizationId !== caller.organizationId)',
    replacement: 'organizationId === 0',
  },
  {
    name: 'an organization admin makes system admins',
    file: 'control-plane/api/authorization.ts',
    text: '  if (requestedRole !== undefined) requireNotAbove(',
    replacement: '  if (asked === caller.role) requireNotAbove(',
  },
  {
    name: 'an organization admin changes users of a higher role',
    file: `${resources}/users/routes.ts`,
    text: 'permit({ caller, document }, user) {\n      requireNotAbove(user, caller, moreThanYours)\n',
    replacement: 'permit({ caller, document }) {\n',
  },
  {
    name: 'a list of subscribers is found by its id in any organization',
    file: `${resources}/subscribers/service.ts`,
    text: '!canAccess(caller, found.list.organization_id)',
    replacement: '!canAccess(caller, caller.organizationId)',
  },
  {
    name: 'a confirmation form of another list asks to confirm',
    file: `${resources}/subscribers/create/service.ts`,
    text: '{ _id: formId, mailing_list_id: list._id }',
    replacement: '{ _id: formId }',
  },
  {
    name: 'an import triggers an autoresponder of another list',
    file: `${resources}/subscriber-imports/create/check.ts`,
    text: '      mailing_list_id: listId,\n      ...(id === undefined',
    replacement: '      ...(id === undefined',
  },
  {
    name: 'an import maps the fields of all lists',
    file: `${resources}/subscriber-imports/create/check.ts`,
    text: 'customFields.find({ mailing_list_id: known._id })',
    replacement: 'customFields.find({})',
  },
  {
    name: "uploads are looked for in the first organization's directory",
    file: `${resources}/subscriber-imports/create/check.ts`,
    text: 'deps.uploads.directory(context.list.organization_id)',
    replacement: 'deps.uploads.directory(1)',
  },
  {
    name: 'an Idempotency-Key is that of all keys and lists',
    file: `${resources}/subscriber-imports/create/idempotency.ts`,
    text: 'digest(`${request.caller.keyId}\\n${request.list._id}\\n${request.idempotencyKey}`)',
    replacement: 'digest(request.idempotencyKey)',
  },
  {
    name: 'the subscribers of all lists are counted under an organization',
    file: `${resources}/subscriber-counts/service.ts`,
    text: '.find({ organization_id: organizationId }, { projection: { name: 1 }, batchSize: manyDocuments })',
    replacement: '.find({}, { projection: { name: 1 }, batchSize: manyDocuments })',
  },
  {
    name: 'reactions of another list are shown by the id of their autoresponder',
    file: `${resources}/reactions/service.ts`,
    text: '{ mailing_list_id: filter.listId },',
    replacement: '{},',
  },
  {
    name: "an admin takes the messages of all organizations' autoresponders",
    file: 'shared/store/outbox.ts',
    text: 'findRunning({ organization_id: organizationId })',
    replacement: 'findRunning({})',
  },
  {
    name: 'an event counts for a subscriber of another list',
    file: `${resources}/delivery-events/recipients.ts`,
    text: 'return this.#known.get(id)?.mailing_list_id === listId',
    replacement: 'return this.#known.get(id) !== undefined || listId > 0',
  },
  {
    name: "a template's change names the content of another one",
    file: `${resources}/campaign-templates/contents.ts`,
    text: '!stored.some((content) => content.id === id)',
    replacement: 'stored.length === 0',
  },
  {
    name: 'every key creates mailing lists',
    file: `${resources}/mailing-lists/routes.ts`,
    text: "needs: permission('mailing_list', 'create')",
    replacement: "needs: 'any_key'",
  },
  {
    name: 'an organization admin changes organizations',
    file: `${resources}/organizations/routes.ts`,
    text: "'Changes the fields that are given',\n    tag,\n    needs: 'system_admin',",
    replacement: "'Changes the fields that are given',\n    tag,\n    needs: 'admin',",
  },
  {
    name: 'one permission of a resource is enough for all that is done to it',
    file: 'control-plane/api/authorization.ts',
    text: 'caller.permissions[key]?.includes(value) === true)',
    replacement: '(caller.permissions[key]?.length ?? 0) > 0 && value !== "")',
  },
]

/** The state that a request has read may have changed when its transaction begins. */
const ofRaces: readonly Fault[] = [
  {
    name: 'a key that was revoked meanwhile makes a successor',
    file: 'control-plane/resources/credential-changes.ts',
    text: 'await refuseRevoked(deps, caller, session)\n',
    replacement: '\n',
  },
  {
    name: 'a key that was switched off meanwhile makes a successor',
    file: 'control-plane/resources/credential-changes.ts',
    text: '{ _id: keyId, user_id: userId, active: true }',
    replacement: '{ _id: keyId, user_id: userId }',
  },
  {
    name: 'a user who was switched off meanwhile makes a key',
    file: 'control-plane/resources/credential-changes.ts',
    text: '{ _id: userId, active: true }',
    replacement: '{ _id: userId }',
  },
  {
    name: 'a user who is less by now makes a key',
    file: 'control-plane/resources/credential-changes.ts',
    text: 'key !== null && roleNow === role',
    replacement: 'key !== null && roleNow !== undefined',
  },
  {
    name: 'a user who was promoted meanwhile is changed',
    file: `${resources}/users/service.ts`,
    text: 'requireNotAbove(current, caller, moreThanYours)\n',
    replacement: '\n',
  },
  {
    name: 'a user who was promoted meanwhile is deleted',
    file: `${resources}/users/service.ts`,
    text: 'requireNotAbove(user, caller, moreThanYours)\n',
    replacement: '\n',
  },
  {
    name: 'the lockout of a user who was promoted meanwhile is ended',
    file: `${resources}/users/service.ts`,
    text: 'requireNotAbove(locked, caller, moreThanYours)\n',
    replacement: '\n',
  },
  {
    name: 'a key is made for a user who was promoted meanwhile',
    file: `${resources}/api-keys/service.ts`,
    text: 'await requireCallerNotBelow(deps, caller, document, session)\n',
    replacement: '\n',
  },
  {
    name: 'a key is taken from a user who was promoted meanwhile',
    file: `${resources}/api-keys/service.ts`,
    text: 'await requireCallerNotBelow(deps, caller, current, session)\n',
    replacement: '\n',
  },
  {
    name: 'the key of a user who was promoted meanwhile is deleted',
    file: `${resources}/api-keys/service.ts`,
    text: 'await requireCallerNotBelow(deps, caller, key, session)\n',
    replacement: '\n',
  },
]

const seenBy =
  (run: TestRun) =>
  (fault: Fault): PlantedFault => ({ ...fault, tests: [run] })

export const authorizationFaults: readonly PlantedFault[] = [
  ...faults.map(seenBy(whoSeesWhose)),
  ...ofRaces.map(seenBy(credentialRules)),
]
