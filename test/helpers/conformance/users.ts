import type { Failure, Row, Rows } from './row.ts'
import type { World } from './world.ts'

const password = 'correct horse battery'

const newUser = (world: World) => ({
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

const refusedSignIn = (email: string) => (): Failure => ({
  sent: { body: { user: { email, password: 'wrong' } } },
  code: 'not_authorized',
  message: /^the email or the password is wrong/,
})

const filters = '?full_name_contains=j&email_contains=@&order_by=full_name&page=0&per_page=5'

export const userRows: Rows = {
  listUsers: { good: () => ({ query: filters }) },
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
      'an unknown permission': refusedCreation({ permissions: { other: [] } }, /^permissions has keys only/),
      'an unknown value': refusedCreation({ permissions: { campaign: ['x'] } }, /^permissions\.campaign\.0/),
      'terms that are switched off': refusedCreation({ terms_and_conditions_version: 1 }, /^terms_and/),
      'one who may do more': refusedCreation({ role: 'system_admin' }, /^nobody makes/, {
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
      'half of a new password': async (world) => ({
        sent: { params: { id: (await post(world)).id }, body: { user: { password1: 'another password' } } },
        code: 'validation_failed',
        message: /^password2 must be the same/,
      }),
    },
  },
  resetPasswordFailureLockout: { good: onNewUser({}) },
  deleteUser: { good: onNewUser() },
  authenticateUser: {
    good: async (world) => ({ body: { user: { email: (await post(world)).email, password } } }),
    failures: {
      'an unknown user': refusedSignIn('nobody@example.com'),
      'what is no email': refusedSignIn('nobody'),
    },
  },
}
