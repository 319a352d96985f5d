import { z } from 'zod'
import { bytes, id, instant } from './bson-schema.ts'

export const roles = ['system_admin', 'organization_admin', 'standard'] as const
export type Role = (typeof roles)[number]

export const apiKeyDocument = z.object({
  _id: id(),
  organization_id: id(),
  name: z.string(),
  role: z.enum(roles),
  active: z.boolean(),
  /** The user whose role and permissions apply instead of `role`. */
  user_id: id().nullable(),
  /** HMAC-SHA-256 of the key under the installation's secret. The key itself is stored nowhere. */
  key_hash: bytes(),
  created_at: instant(),
})
export type ApiKeyDocument = z.infer<typeof apiKeyDocument>
