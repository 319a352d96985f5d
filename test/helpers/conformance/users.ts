import type { RequestError } from '../../../control-plane/api/request-error.ts'
import { noSuchOrganization } from '../../../control-plane/api/scope.ts'
import {
  noSystemKeyLeft,
  noSystemUserLeft,
  systemAdminElsewhere,
} from '../../../control-plane/resources/credential-changes.ts'
import {
  emailTaken,
  moreThanYours,
  noTerms,
  ownUser,
  signInRefused,
} from '../../../control-plane/resources/users/refusals.ts'
import type { Refused, Row, Rows } from './row.ts'
import type { World } from './world.ts'

const password = 'correct horse battery'

const newUser = (world: Pick<World, 'unique'>) => ({
  full_name: 'Jane Roe',
  email: `${world.unique('jane').replaceAll(' ', '_')}@example.com`,
  active: true,
  role: 'standard',
  show_quick_tips: false,
  default_preview_recipients: ['preview@example.com'],
  terms_and_conditions_version: null,
  permissions: { subscriber: ['read'], 'campaign/template': [] },
  password1: password,
  password2: password,
})

const post = (world: World) => world.post('/users', { user: newUser(world) })

function onNewUser(body?: unknown): Row['good'] {
  return async (world) => {
    const params = { id: (await post(world)).id }
    return body === undefined ? { params } : { params, body }
  }
}

const refusedCreation =
  (fields: Record<string, unknown>, refused: RequestError) =>
  (world: World): Refused => ({ sent: { body: { user: { ...newUser(world), ...fields } } }, refused })

const refusedChange =
  (fields: Record<string, unknown>, refused: RequestError) =>
  async (world: World): Promise<Refused> => ({
    sent: { params: { id: (await post(world)).id }, body: { user: fields } },
    refused,
  })

/** The id of the only system admin, who is created where there is none. */
async function onlySystemAdmin({ service, unique }: World): Promise<number> {
  const { users } = service.collections
  const found = await users.findOne({ role: 'system_admin' })
  if (found !== null) return found._id
  const user = { ...newUser({ unique }), role: 'system_admin' }
  return (await service.post('/users', { user })).id
}

async function refusedToLesserAdmin(world: World): Promise<Refused> {
  return {
    sent: { params: { id: await onlySystemAdmin(world) }, key: await world.adminBesideSystem() },
    refused: moreThanYours(),
  }
}

const refusedAsLastAdmin =
  (body?: unknown) =>
  async (world: World): Promise<Refused> => ({
    sent: { params: { id: await onlySystemAdmin(world) }, key: world.system, body },
    refused: noSystemUserLeft(),
  })

/** The only key of the only system admin. */
async function refusedAsLastKey(world: World): Promise<Refused> {
  const { service, system } = world
  const id = await onlySystemAdmin(world)
  const bind = (userId: number | null) =>
    service.call('PUT', '/api_keys/1', { api_key: { user_id: userId } }, { key: system })
  await bind(id)
  return {
    sent: { params: { id }, key: system, body: { user: { active: false } } },
    refused: noSystemKeyLeft(),
    after: () => bind(null),
  }
}

const refusedSignIn = (email: string) => (): Refused => ({
  sent: { body: { user: { email, password: 'wrong' } } },
  refused: signInRefused(),
})

const filters = '?full_name_contains=j&email_contains=@&order_by=full_name&page=0&per_page=5'

export const userRows: Rows = {
  listUsers: {
    good: async (world) => {
      await post(world)
      return { query: filters }
    },
  },
  listUsersOfOrganization: {
    good: ({ organizationId }) => ({ params: { organization_id: organizationId }, query: filters }),
  },
  getUser: { good: onNewUser() },
  createUser: {
    good: (world) => ({ body: { user: newUser(world) } }),
    refusals: [
      (world) => ({
        sent: { key: world.system, body: { user: { ...newUser(world), organization_id: 999_999 } } },
        refused: noSuchOrganization(999_999),
      }),
      (world) => ({
        sent: {
          key: world.system,
          body: { user: { ...newUser(world), role: 'system_admin', organization_id: world.organizationId } },
        },
        refused: systemAdminElsewhere(),
      }),
      refusedCreation({ terms_and_conditions_version: 1 }, noTerms()),
      // The role is refused before all else about the document.
      refusedCreation({ role: 'system_admin', full_name: 5 }, moreThanYours()),
      async (world) => {
        const { email } = await post(world)
        return { sent: { body: { user: { ...newUser(world), email } } }, refused: emailTaken(email) }
      },
    ],
  },
  updateUser: {
    good: onNewUser({
      user: {
        full_name: 'New Name',
        email: undefined,
        active: false,
        permissions: { subscriber: [] },
        password1: 'another password',
        password2: 'another password',
      },
    }),
    refusals: [
      refusedChange({ terms_and_conditions_version: 1 }, noTerms()),
      async (world) => {
        const [{ id }, { email }] = [await post(world), await post(world)]
        return { sent: { params: { id }, body: { user: { email } } }, refused: emailTaken(email) }
      },
      async (world) => ({
        sent: {
          key: world.system,
          params: { id: (await post(world)).id },
          body: { user: { role: 'system_admin' } },
        },
        refused: systemAdminElsewhere(),
      }),
      refusedChange({ role: 'system_admin', full_name: 5 }, moreThanYours()),
      refusedAsLastAdmin({ user: { active: false } }),
      refusedAsLastKey,
    ],
  },
  resetPasswordFailureLockout: { good: onNewUser({}), refusals: [refusedToLesserAdmin] },
  deleteUser: {
    good: onNewUser(),
    refusals: [
      refusedToLesserAdmin,
      async (world) => {
        const { id } = await post(world)
        await world.service.collections.users.updateOne({ _id: id }, { $set: { role: 'organization_admin' } })
        const { key } = await world.post('/api_keys', { api_key: { name: 'Own', user_id: id } })
        return { sent: { params: { id }, key }, refused: ownUser(id) }
      },
      refusedAsLastAdmin(),
    ],
  },
  authenticateUser: {
    good: async (world) => ({ body: { user: { email: (await post(world)).email, password } } }),
    refusals: [refusedSignIn('nobody@example.com'), refusedSignIn('nobody')],
  },
}
