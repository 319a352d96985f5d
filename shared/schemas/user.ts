import { z } from 'zod'
import { roles } from './api-key.ts'
import { id, instant } from './bson-schema.ts'

/** Every permission there is, by its key. */
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
  email: z.string(),
  /** Comparison form of the email, unique over the system. */
  email_key: z.string(),
  active: z.boolean(),
  role: z.enum(roles),
  permissions: z.record(z.string(), z.array(z.string())),
  created_at: instant(),
})
export type UserDocument = z.infer<typeof userDocument>
