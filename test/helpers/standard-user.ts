/** The body of a user's creation, for tests to which it doesn't matter who that is. */
export const standardUser = {
  email: 'user@example.com',
  full_name: 'User',
  password1: 'password',
  password2: 'password',
  active: true,
  role: 'standard',
}
