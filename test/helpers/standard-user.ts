/** The body of a user's creation, for tests that need any user. */
export const standardUser = {
  email: 'user@example.com',
  full_name: 'User',
  password1: 'password',
  password2: 'password',
  active: true,
  role: 'standard',
}
