import { z } from 'zod'
import { requireNotAbove, requireRequestedRoleNotAbove } from '../../api/authorization.ts'
import { endpoint, type Endpoint } from '../../api/endpoint.ts'
import { noSuchOrganization } from '../../api/scope.ts'
import { noSystemKeyLeft, noSystemUserLeft, systemAdminElsewhere } from '../credential-changes.ts'
import { emailTaken, moreThanYours, noTerms, ownUser, signInRefused } from './refusals.ts'
import {
  lockoutReset,
  signIn,
  userChange,
  userCreation,
  userExample,
  userQuery,
  userView,
} from './schemas.ts'
import { changeUser, createUser, deleteUser, endLockout, listUsers, userInPath } from './service.ts'
import { authenticate } from './sign-in.ts'
import { toView } from './view.ts'

const tag = 'Users'

/** Values that the schemas refuse, of a creation and of a change. */
const faultyFields = [
  { full_name: ' ' },
  { email: 'nobody' },
  { email: 'jane@bücher.example' },
  { default_preview_recipients: ['x'] },
  { permissions: { other: [] } },
  { permissions: { seed_list: ['send'] } },
  { password1: 'short', password2: 'short' },
  { password1: 'x'.repeat(1_025), password2: 'x'.repeat(1_025) },
]

type Listing = Pick<Endpoint, 'path' | 'operationId' | 'summary'> & { isOfAllOrganizations: boolean }

function listing({ isOfAllOrganizations, ...described }: Listing): Endpoint {
  return endpoint({
    method: 'get',
    ...described,
    tag,
    needs: 'admin',
    ...(isOfAllOrganizations ? { scope: 'own_organization_or_all' as const } : {}),
    query: userQuery,
    // A part of a name is searched in all users.
    slot: 'costly',
    reply: { data: z.array(userView), paging: 'pages', example: [userExample] },
    handle(call) {
      const isEverywhere = isOfAllOrganizations && call.caller.role === 'system_admin'
      return listUsers(call, isEverywhere ? null : call.organizationId, call.query)
    },
  })
}

export const userEndpoints = [
  listing({
    path: '/users',
    operationId: 'listUsers',
    summary: 'The users of the organization; for a system admin those of all',
    isOfAllOrganizations: true,
  }),
  listing({
    path: '/organizations/:organization_id/users',
    operationId: 'listUsersOfOrganization',
    summary: 'The users of one organization',
    isOfAllOrganizations: false,
  }),
  endpoint({
    method: 'post',
    path: '/users/authenticate',
    operationId: 'authenticateUser',
    summary:
      'The user with that email and password; not_authorized with one message for a wrong password, an unknown, foreign, inactive or locked-out user. Each organization gets its share of the hashing; one with 200 waiting passwords gets 429',
    tag,
    needs: 'admin',
    scope: 'record',
    body: {
      wrapper: 'user',
      schema: signIn,
      examples: {
        'a sign-in by password': { user: { email: 'jane@example.com', password: 'correct horse battery' } },
      },
    },
    slot: null,
    reply: { data: userView, example: userExample },
    refusals: [signInRefused],
    handle: async ({ deps, caller, body, clientGone }) => ({
      data: await toView(deps, await authenticate(deps, caller, body, clientGone)),
    }),
  }),
  endpoint({
    method: 'get',
    path: '/users/:id',
    operationId: 'getUser',
    summary: 'One user',
    tag,
    needs: 'admin',
    reply: { data: userView, example: userExample },
    record: userInPath,
    handle: async ({ deps, record }) => ({ data: await toView(deps, record) }),
  }),
  endpoint({
    method: 'post',
    path: '/users',
    operationId: 'createUser',
    summary: 'Creates a user',
    tag,
    needs: 'admin',
    scope: 'own_organization_or_given',
    body: {
      wrapper: 'user',
      schema: userCreation,
      forSystemAdmins: ['organization_id'],
      examples: {
        'a standard user': {
          user: {
            full_name: 'Jane Roe',
            email: 'jane@example.com',
            active: true,
            role: 'standard',
            permissions: { subscriber: ['read', 'import'] },
            password1: 'correct horse battery',
            password2: 'correct horse battery',
          },
        },
      },
      faulty: [...faultyFields, { password2: 'another' }],
    },
    slot: null,
    reply: { data: userView, example: userExample },
    permit: ({ caller, document }) => requireRequestedRoleNotAbove(document, caller, moreThanYours),
    refusals: [noSuchOrganization, systemAdminElsewhere, noTerms, emailTaken, moreThanYours],
    handle: async ({ deps, caller, body, clientGone }) => ({
      data: await toView(deps, await createUser(deps, caller, body, clientGone)),
    }),
  }),
  endpoint({
    method: 'put',
    path: '/users/:id',
    operationId: 'updateUser',
    summary: 'Changes the fields that are given; a new password is given twice',
    tag,
    needs: 'admin',
    body: {
      wrapper: 'user',
      schema: userChange,
      isUpdate: true,
      examples: { 'a user is deactivated': { user: { active: false } } },
      faulty: [...faultyFields, { password2: 'another' }],
    },
    record: userInPath,
    permit({ caller, document }, user) {
      requireNotAbove(user, caller, moreThanYours)
      requireRequestedRoleNotAbove(document, caller, moreThanYours)
    },
    slot: null,
    reply: { data: userView, example: { ...userExample, active: false } },
    refusals: [systemAdminElsewhere, noTerms, emailTaken, noSystemUserLeft, noSystemKeyLeft, moreThanYours],
    handle: async ({ deps, caller, record, body, clientGone }) => ({
      data: await toView(deps, await changeUser(deps, caller, record, body, clientGone)),
    }),
  }),
  endpoint({
    method: 'put',
    path: '/users/:id/reset_password_failure_lockout',
    operationId: 'resetPasswordFailureLockout',
    summary: 'Ends the lockout after wrong passwords, and resets their count',
    tag,
    needs: 'admin',
    body: { wrapper: null, schema: z.object({}), optional: true, examples: { 'an empty body': {} } },
    reply: { data: lockoutReset, example: { result: 'lockout_cleared' } },
    record: userInPath,
    permit: ({ caller }, user) => requireNotAbove(user, caller, moreThanYours),
    refusals: [moreThanYours],
    async handle({ deps, caller, record }) {
      const wasLocked = await endLockout(deps, caller, record)
      return { data: { result: wasLocked ? 'lockout_cleared' : 'not_locked_out' } }
    },
  }),
  endpoint({
    method: 'delete',
    path: '/users/:id',
    operationId: 'deleteUser',
    summary: 'Deletes a user; its API keys are refused from then on',
    tag,
    needs: 'admin',
    record: userInPath,
    refusals: [ownUser, noSystemUserLeft, moreThanYours],
    reply: { data: z.null(), example: null },
    async handle({ deps, caller, record }) {
      await deleteUser(deps, caller, record)
      return { data: null }
    },
  }),
]
