import { z } from 'zod'
import { requireNotAbove, requireRequestedRoleNotAbove } from '../../api/authorization.ts'
import { oldEndpoint as endpoint, type Endpoint } from '../../api/endpoint.ts'
import { moreThanYours } from './refusals.ts'
import {
  lockoutReset,
  signIn,
  userChange,
  userCreation,
  userExample,
  userQuery,
  userView,
} from './schemas.ts'
import { changeUser, createUser, deleteUser, endLockout, findUser, listUsers } from './service.ts'
import { authenticate } from './sign-in.ts'
import { toView } from './view.ts'

const tag = 'Users'

const noUser = 'there is no user 4711'
const more = moreThanYours.example.message
const lastAdmin = 'this would leave no active system-admin user: create another one first'
const lastKey = 'this would leave no usable system-admin key: create another one first'
const misplacedRole = 'role can be system_admin only in organization 1'
const takenEmail = 'email is taken: there is a user with jane@example.com already'
const noTerms =
  'terms_and_conditions_version can be only null: this service has no terms and conditions to agree to'
const faultyFields = [
  'full_name must not be blank',
  'email must be an email address',
  'email must have a domain in ASCII: internationalized domain names are not supported here',
  'default_preview_recipients.0 must be an email address',
  'permissions has the unknown key other: allowed are mailing_list, subscriber, segmentation_criteria, autoresponder, web_form, custom_field, campaign, campaign/template, seed_list',
  'permissions.seed_list.0 must be one of "create", "update", "delete"',
  'password1 must have at least 8 characters',
  'password1 must have at most 1024 bytes in UTF-8',
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
    isCostly: true,
    reply: { data: z.array(userView), paging: 'pages', example: [userExample] },
    handle(call) {
      const isEverywhere = isOfAllOrganizations && call.caller.role === 'system_admin'
      return listUsers(call, isEverywhere ? null : call.organizationId, call.query())
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
      example: { user: { email: 'jane@example.com', password: 'correct horse battery' } },
    },
    hasOwnSlots: true,
    reply: { data: userView, example: userExample },
    refusals: {
      not_authorized: 'the email or the password is wrong, or the user is inactive or locked out',
    },
    async handle({ deps, caller, body, clientGone }) {
      return { data: await toView(deps, await authenticate(deps, caller, body(), clientGone)) }
    },
  }),
  endpoint({
    method: 'get',
    path: '/users/:id',
    operationId: 'getUser',
    summary: 'One user',
    tag,
    needs: 'admin',
    reply: { data: userView, example: userExample },
    refusals: { not_found: noUser },
    async handle({ deps, caller, params }) {
      return { data: await toView(deps, await findUser(deps, caller, params['id'])) }
    },
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
      example: {
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
    hasOwnSlots: true,
    reply: { data: userView, example: userExample },
    refusals: {
      validation_failed: [
        ...faultyFields,
        'password2 must be the same as password1',
        'organization_id: there is no organization 4711',
        misplacedRole,
        noTerms,
        takenEmail,
      ],
    },
    forbids: [more],
    async handle({ deps, caller, body, documentAsSent, clientGone }) {
      requireRequestedRoleNotAbove(documentAsSent(), caller, moreThanYours)
      return { data: await toView(deps, await createUser(deps, caller, body(), clientGone)) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/users/:id',
    operationId: 'updateUser',
    summary: 'Changes the fields that are given; a new password is given twice',
    tag,
    needs: 'admin',
    body: { wrapper: 'user', schema: userChange, isUpdate: true, example: { user: { active: false } } },
    hasOwnSlots: true,
    reply: { data: userView, example: { ...userExample, active: false } },
    refusals: {
      not_found: noUser,
      validation_failed: [
        ...faultyFields,
        'password2 must be the same as password1: a new password is given as both',
        misplacedRole,
        noTerms,
        takenEmail,
        lastAdmin,
        lastKey,
      ],
    },
    forbids: [more],
    async handle({ deps, caller, params, body, documentAsSent, clientGone }) {
      const user = await findUser(deps, caller, params['id'])
      // This 403 precedes all other refusals, those of the body included.
      requireNotAbove(user, caller, moreThanYours)
      requireRequestedRoleNotAbove(documentAsSent(), caller, moreThanYours)
      return { data: await toView(deps, await changeUser(deps, caller, user, body(), clientGone)) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/users/:id/reset_password_failure_lockout',
    operationId: 'resetPasswordFailureLockout',
    summary: 'Ends the lockout after wrong passwords, and resets their count',
    tag,
    needs: 'admin',
    body: { wrapper: null, schema: z.object({}), optional: true, example: {} },
    reply: { data: lockoutReset, example: { result: 'lockout_cleared' } },
    refusals: { not_found: noUser },
    forbids: [more],
    async handle({ deps, caller, params, body }) {
      const user = await findUser(deps, caller, params['id'])
      requireNotAbove(user, caller, moreThanYours)
      body()
      const wasLocked = await endLockout(deps, caller, user)
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
    refusals: {
      not_found: noUser,
      validation_failed: ['you cannot delete your own user, which is user 3', lastAdmin],
    },
    forbids: [more],
    reply: { data: z.null(), example: null },
    async handle({ deps, caller, params }) {
      const user = await findUser(deps, caller, params['id'])
      requireNotAbove(user, caller, moreThanYours)
      await deleteUser(deps, caller, user)
      return { data: null }
    },
  }),
]
