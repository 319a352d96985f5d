import type { Failure, Row, Rows } from './row.ts'
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
  (fields: Record<string, unknown>, message: RegExp, failure: Partial<Failure> = {}) =>
  (world: World): Failure => ({
    sent: { body: { user: { ...newUser(world), ...fields } } },
    code: 'validation_failed',
    message,
    ...failure,
  })

const refusedChange =
  (fields: Record<string, unknown>, message: RegExp) =>
  async (world: World): Promise<Failure> => ({
    sent: { params: { id: (await post(world)).id }, body: { user: fields } },
    code: 'validation_failed',
    message,
  })

/** The id of the only system admin, who is created where there is none. */
async function onlySystemAdmin({ service, unique }: World): Promise<number> {
  const { users } = service.collections
  const found = await users.findOne({ role: 'system_admin' })
  if (found !== null) return found._id
  const user = { ...newUser({ unique }), role: 'system_admin' }
  return (await service.post('/users', { user })).id
}

const refusedToLesserAdmin =
  () =>
  async (world: World): Promise<Failure> => ({
    sent: { params: { id: await onlySystemAdmin(world) }, key: await world.adminBesideSystem() },
    code: 'not_authorized',
    status: 403,
  })

const refusedAsLastAdmin =
  (body?: unknown) =>
  async (world: World): Promise<Failure> => ({
    sent: { params: { id: await onlySystemAdmin(world) }, key: world.system, body },
    code: 'validation_failed',
    message: /no active system-admin user/,
  })

/** The only key of the only system admin. */
async function refusedAsLastKey(world: World): Promise<Failure> {
  const { service, system } = world
  const id = await onlySystemAdmin(world)
  const bind = (userId: number | null) =>
    service.call('PUT', '/api_keys/1', { api_key: { user_id: userId } }, { key: system })
  await bind(id)
  return {
    sent: { params: { id }, key: system, body: { user: { active: false } } },
    code: 'validation_failed',
    message: /no usable system-admin key/,
    after: () => bind(null),
  }
}

const refusedSignIn = (email: string) => (): Failure => ({
  sent: { body: { user: { email, password: 'wrong' } } },
  code: 'not_authorized',
  message: /^the email or the password is wrong/,
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
    failures: {
      'different passwords': refusedCreation({ password2: 'another' }, /^password2 must be the same/),
      'a short password': refusedCreation(
        { password1: 'short', password2: 'short' },
        /at least 8 characters/,
      ),
      'an internationalized domain': refusedCreation({ email: 'jane@bücher.example' }, /^email must have/),
      'an unknown permission': refusedCreation(
        { permissions: { other: [] } },
        /^permissions has the unknown key other: allowed are/,
      ),
      'an unknown value': refusedCreation(
        { permissions: { seed_list: ['send'] } },
        /^permissions\.seed_list\.0/,
      ),
      'a blank name': refusedCreation({ full_name: ' ' }, /^full_name/),
      'what is no email': refusedCreation({ email: 'nobody' }, /^email must be/),
      'a recipient who is none': refusedCreation({ default_preview_recipients: ['x'] }, /^default_preview/),
      'a long password': refusedCreation(
        { password1: 'x'.repeat(1025), password2: 'x'.repeat(1025) },
        /at most 1024 bytes/,
      ),
      'an organization that is not there': (world) => ({
        sent: { key: world.system, body: { user: { ...newUser(world), organization_id: 999_999 } } },
        code: 'validation_failed',
        message: /^organization_id/,
      }),
      'a system admin outside of organization 1': (world) => ({
        sent: {
          key: world.system,
          body: { user: { ...newUser(world), role: 'system_admin', organization_id: world.organizationId } },
        },
        code: 'validation_failed',
        message: /^role/,
      }),
      'terms that are switched off': refusedCreation({ terms_and_conditions_version: 1 }, /^terms_and/),
      'one who may do more': refusedCreation({ role: 'system_admin' }, /^you can't create/, {
        code: 'not_authorized',
        status: 403,
      }),
      'an email that is taken': async (world) => ({
        sent: { body: { user: { ...newUser(world), email: (await post(world)).email } } },
        code: 'validation_failed',
        message: /^email is taken/,
      }),
    },
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
    failures: {
      'a blank name': refusedChange({ full_name: ' ' }, /^full_name/),
      'what is no email': refusedChange({ email: 'nobody' }, /^email must be/),
      'an internationalized domain': refusedChange({ email: 'jane@bücher.example' }, /^email must have/),
      'a recipient who is none': refusedChange({ default_preview_recipients: ['x'] }, /^default_preview/),
      'an unknown permission': refusedChange(
        { permissions: { other: [] } },
        /^permissions has the unknown key other: allowed are/,
      ),
      'an unknown value': refusedChange({ permissions: { seed_list: ['x'] } }, /^permissions\.seed_list\.0/),
      'a short password': refusedChange({ password1: 'x', password2: 'x' }, /at least 8 characters/),
      'a long password': refusedChange(
        { password1: 'x'.repeat(1025), password2: 'x'.repeat(1025) },
        /at most 1024 bytes/,
      ),
      'terms that are switched off': refusedChange({ terms_and_conditions_version: 1 }, /^terms_and/),
      'an email that is taken': async (world) => ({
        sent: {
          params: { id: (await post(world)).id },
          body: { user: { email: (await post(world)).email } },
        },
        code: 'validation_failed',
        message: /^email is taken/,
      }),
      'a system admin outside of organization 1': async (world) => ({
        sent: {
          key: world.system,
          params: { id: (await post(world)).id },
          body: { user: { role: 'system_admin' } },
        },
        code: 'validation_failed',
        message: /^role/,
      }),
      'one who may do more': async (world) => ({
        sent: {
          params: { id: (await post(world)).id },
          body: { user: { role: 'system_admin' } },
        },
        code: 'not_authorized',
        status: 403,
      }),
      'the last system admin': refusedAsLastAdmin({ user: { active: false } }),
      'the one with the last key of a system admin': refusedAsLastKey,
      'half of a new password': async (world) => ({
        sent: { params: { id: (await post(world)).id }, body: { user: { password1: 'another password' } } },
        code: 'validation_failed',
        message: /^password2 must be the same/,
      }),
    },
  },
  resetPasswordFailureLockout: {
    good: onNewUser({}),
    failures: { 'one who may do more': refusedToLesserAdmin() },
  },
  deleteUser: {
    good: onNewUser(),
    failures: {
      'one who may do more': refusedToLesserAdmin(),
      oneself: async (world) => {
        const { id } = await post(world)
        await world.service.collections.users.updateOne({ _id: id }, { $set: { role: 'organization_admin' } })
        const { key } = await world.post('/api_keys', { api_key: { name: 'Own', user_id: id } })
        return {
          sent: { params: { id }, key },
          code: 'validation_failed',
          message: /^you cannot delete your own user/,
        }
      },
      'the last system admin': refusedAsLastAdmin(),
    },
  },
  authenticateUser: {
    good: async (world) => ({ body: { user: { email: (await post(world)).email, password } } }),
    failures: {
      'an unknown user': refusedSignIn('nobody@example.com'),
      'what is no email': refusedSignIn('nobody'),
    },
  },
}
