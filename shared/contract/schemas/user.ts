import { z } from 'zod'
import { userRoles } from './api-key.ts'
import { id, instant, integer } from './bson-schema.ts'

/** All permissions, by key. */
export const permissionValues = {
  mailing_list: ['create', 'update', 'delete'],
  subscriber: ['create', 'update', 'delete', 'read', 'import', 'export'],
  segmentation_criteria: ['create', 'update', 'delete'],
  autoresponder: ['create', 'update', 'delete', 'update_state', 'read_stats'],
  web_form: ['create', 'update', 'delete'],
  custom_field: ['create', 'update', 'delete'],
  campaign: ['create', 'update', 'delete', 'send', 'update_state', 'read_stats'],
  'campaign/template': ['create', 'update', 'delete'],
  seed_list: ['create', 'update', 'delete'],
} as const

export type Permissions = Readonly<Record<string, readonly string[]>>

export const userDocument = z.object({
  _id: id(),
  organization_id: id(),
  full_name: z.string(),
  /** Comparison form of the name, for sorting and filters. */
  full_name_key: z.string(),
  email: z.string(),
  /** Comparison form of the email, unique in the installation. */
  email_key: z.string(),
  active: z.boolean(),
  role: z.enum(userRoles),
  /** Apply to the role `standard`; admin roles have all permissions. */
  permissions: z.record(z.string(), z.array(z.string())),
  show_quick_tips: z.boolean(),
  default_preview_recipients: z.array(z.string()),
  terms_and_conditions_version: integer().min(0).nullable(),
  /** Argon2id in the PHC string format. The password itself is stored nowhere. */
  password_hash: z.string(),
  /** Wrong passwords since the last right one. */
  password_failures: integer().min(0),
  /** All passwords are refused until this time; null or a past time when the user isn't locked out. */
  locked_until: instant().nullable(),
  /** When a password was last tried. */
  password_tried_at: instant().nullable(),
  created_at: instant(),
})
export type UserDocument = z.infer<typeof userDocument>
