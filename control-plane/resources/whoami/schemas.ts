import { z } from 'zod'
import { roles } from '../../../shared/contract/schemas/api-key.ts'
import { byPermissionKey, permissionsView } from '../users/schemas.ts'

/** The caller in a reply. */

export const whoamiView = z
  .object({
    api_key: z.object({ id: z.int(), name: z.string() }).describe('the API key of this request'),
    user: z
      .object({ id: z.int(), email: z.string() })
      .nullable()
      .describe('the user that the key belongs to; null for none'),
    organization: z
      .object({ id: z.int(), name: z.string(), time_zone_name: z.string() })
      .describe('the organization of the key'),
    role: z.enum(roles).describe('the effective role: that of the user when the key has one'),
    uploads_folder: z.string().nullable(),
    permissions: permissionsView.describe('the effective permissions: admin roles have all of them'),
  })
  .meta({ id: 'Whoami' })
export type WhoamiView = z.infer<typeof whoamiView>

export const exampleWhoami: WhoamiView = {
  api_key: { id: 7, name: 'Nightly import' },
  user: { id: 3, email: 'jane@example.com' },
  organization: { id: 2, name: 'Example Ltd', time_zone_name: 'Europe/Berlin' },
  role: 'standard',
  uploads_folder: null,
  permissions: { ...byPermissionKey(() => []), subscriber: ['read', 'import'] },
}
