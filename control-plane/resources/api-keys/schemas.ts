import { z } from 'zod'
import { roles } from '../../../shared/contract/schemas/api-key.ts'
import { flag, nameText, oneOf, positiveId } from '../../api/fields.ts'

/** API keys in requests and replies. */

export const apiKeyView = z
  .object({
    id: z.int(),
    organization_id: z.int(),
    name: z.string(),
    role: z.enum(roles).describe('the effective role: that of the user when the key has one'),
    active: z.boolean(),
    user_id: z.int().nullable(),
  })
  .meta({ id: 'ApiKey' })
export type ApiKeyView = z.infer<typeof apiKeyView>

export const createdApiKeyView = apiKeyView
  .extend({ key: z.string().describe('the key itself; no other reply shows it') })
  .meta({ id: 'CreatedApiKey' })

export const exampleApiKey = {
  id: 7,
  organization_id: 2,
  name: 'Nightly import',
  role: 'organization_admin',
  active: true,
  user_id: null,
}

export const apiKeyCreation = z.object({
  name: nameText(100),
  role: oneOf(roles).default('organization_admin'),
  active: flag().default(true),
  user_id: positiveId().nullable().default(null),
})
export type ApiKeyCreation = z.infer<typeof apiKeyCreation>

export const apiKeyChange = z
  .object({ name: nameText(100), role: oneOf(roles), active: flag(), user_id: positiveId().nullable() })
  .partial()
export type ApiKeyChange = z.infer<typeof apiKeyChange>
