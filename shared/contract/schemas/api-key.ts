import { z } from 'zod'
import { bytes, id, instant } from './bson-schema.ts'

/** Of users, the most powerful one first. */
export const userRoles = ['system_admin', 'organization_admin', 'standard'] as const
export type UserRole = (typeof userRoles)[number]

/** Of API keys, the most powerful one first. `uploads` is for partners: it sends files, and does nothing else. */
export const roles = [...userRoles, 'uploads'] as const
export type Role = (typeof roles)[number]

/** Admin roles have every permission. */
export const isAdminRole = (role: Role): boolean => role === 'system_admin' || role === 'organization_admin'

export const apiKeyDocument = z.object({
  _id: id(),
  organization_id: id(),
  name: z.string(),
  role: z.enum(roles),
  active: z.boolean(),
  /** The user whose role and permissions apply instead of `role`. */
  user_id: id().nullable(),
  /** The only folder of the upload directory that the key sees. Keys of the role `uploads` alone have one. */
  uploads_folder: z.string().nullable().optional(),
  /** HMAC-SHA-256 of the key under the installation's secret. The key itself is stored nowhere. */
  key_hash: bytes(),
  created_at: instant(),
  /** True to `lastUsedMs` of shared/store/api-keys.ts; absent where the key was never used. */
  last_used_at: instant().optional(),
})
export type ApiKeyDocument = z.infer<typeof apiKeyDocument>
