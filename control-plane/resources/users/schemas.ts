import { z } from 'zod'
import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import { userRoles } from '../../../shared/contract/schemas/api-key.ts'
import { permissionValues } from '../../../shared/contract/schemas/user.ts'
import {
  emailText,
  flag,
  instantView,
  nameText,
  oneOf,
  positiveId,
  storedAddress,
  validEmail,
} from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { isHash } from '../../api/validation.ts'
import { maxPasswordBytes } from './passwords.ts'

/** Users in requests and replies. */

type PermissionKey = keyof typeof permissionValues

const permissionKeys = Object.keys(permissionValues) as PermissionKey[]

/** One value for each permission key. */
export const byPermissionKey = <Value>(make: (key: PermissionKey) => Value) =>
  recordFromKeys(permissionKeys, make)

export const permissionsView = z
  .object(byPermissionKey((key): z.ZodType<string[]> => z.array(z.enum(permissionValues[key]))))
  .meta({ id: 'Permissions' })

export const userView = z
  .object({
    id: z.int(),
    organization_id: z.int(),
    full_name: z.string(),
    email: z.string(),
    active: z
      .boolean()
      .describe('whether the user can sign in; the API keys of an inactive user are refused'),
    role: z.enum(userRoles),
    show_quick_tips: z.boolean(),
    default_preview_recipients: z.array(z.string()),
    terms_and_conditions_version: z.int().nullable(),
    permissions: permissionsView.describe('the effective permissions: admin roles have all of them'),
    password_failure_lockout: z
      .object({
        is_locked_out: z
          .boolean()
          .describe('whether sign-ins are refused, even with the right password; API keys are not affected'),
        expires_at: instantView().nullable().describe("in the organization's zone; null when not locked out"),
      })
      .meta({ id: 'PasswordFailureLockout' }),
  })
  .meta({ id: 'User' })

export const userExample: z.infer<typeof userView> = {
  id: 3,
  organization_id: 2,
  full_name: 'Jane Roe',
  email: 'jane@example.com',
  active: true,
  role: 'standard',
  show_quick_tips: true,
  default_preview_recipients: ['preview@example.com'],
  terms_and_conditions_version: null,
  permissions: { ...byPermissionKey(() => []), subscriber: ['read', 'import'] },
  password_failure_lockout: { is_locked_out: false, expires_at: null },
}

const email = emailText('email')
  .transform(storedAddress)
  .refine((address) => !/[^\x00-\x7f]/.test(address), {
    error: 'must have a domain in ASCII: internationalized domain names are not supported here',
  })

const recipients = z.array(validEmail()).max(100)

/** Duplicates are removed, and values sorted in the order of `permissionValues`. */
const requestedPermissions = z.strictObject(
  byPermissionKey((key): z.ZodOptional<z.ZodType<string[], string[]>> => {
    const values: readonly string[] = permissionValues[key]
    return z
      .array(z.enum(values))
      .transform((list) => values.filter((value) => list.includes(value)))
      .optional()
  }),
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has the unknown key${issue['keys'].length === 1 ? '' : 's'} ${issue['keys'].join(', ')}: allowed are ${permissionKeys.join(', ')}`
        : undefined,
  },
)

const minPasswordCharacters = 8

const password = z
  .string()
  .refine((text) => Array.from(text).length >= minPasswordCharacters, {
    error: `must have at least ${minPasswordCharacters} characters`,
  })
  .refine((text) => Buffer.byteLength(text) <= maxPasswordBytes, {
    error: `must have at most ${maxPasswordBytes} bytes in UTF-8`,
  })
  .meta({ minLength: minPasswordCharacters, maxLength: maxPasswordBytes })

const fields = {
  full_name: nameText(100),
  email,
  active: flag(),
  role: oneOf(userRoles),
  show_quick_tips: flag(),
  default_preview_recipients: recipients,
  terms_and_conditions_version: z.int().min(0).nullable(),
  permissions: requestedPermissions,
}

/** Lets one reply name differing passwords together with faults of other fields. */
const evenIfOtherwiseFaulty = ({ value }: { value: unknown }) => isHash(value)

const passwordsDiffer = {
  path: ['password2'],
  error: 'must be the same as password1',
  when: evenIfOtherwiseFaulty,
}

export const userCreation = z
  .object({
    ...fields,
    show_quick_tips: fields.show_quick_tips.default(true),
    default_preview_recipients: recipients.default([]),
    terms_and_conditions_version: fields.terms_and_conditions_version.default(null),
    permissions: requestedPermissions.default({}).describe('none by default'),
    password1: password,
    password2: z.string(),
    organization_id: positiveId().optional().describe('for system admins; ignored from others'),
  })
  .refine(
    ({ password1, password2 }) =>
      password1 === password2 || typeof password1 !== 'string' || typeof password2 !== 'string',
    passwordsDiffer,
  )

export const userChange = z
  .object({
    ...fields,
    default_preview_recipients: recipients.nullable().transform((list) => list ?? []),
    permissions: requestedPermissions.describe('the named keys are replaced, the others stay'),
    password1: password,
    password2: z.string(),
  })
  .partial()
  .refine(({ password1, password2 }) => password1 === password2, {
    ...passwordsDiffer,
    error: 'must be the same as password1: a new password is given as both',
  })

export const userQuery = tokenPagingQuery({ perPage: 2000, max: 2000 }).safeExtend({
  full_name: z.string().optional().describe('the whole name, in any case'),
  full_name_contains: z.string().optional().describe('a part of the name, in any case'),
  email: z.string().optional().describe('the whole email, in any case'),
  email_contains: z.string().optional().describe('a part of the email, in any case'),
  order_by: z
    .enum(['full_name', 'email', 'id'])
    .default('id')
    .describe('names and emails are sorted without regard to case'),
})

export const signIn = z.object({ email: z.string(), password: z.string() })

export const lockoutReset = z.object({
  result: z
    .enum(['lockout_cleared', 'not_locked_out'])
    .describe('whether the user was locked out; the count of wrong passwords is reset in both cases'),
})
