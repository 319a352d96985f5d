import { z } from 'zod'
import { roles } from '../../../shared/contract/schemas/api-key.ts'
import { folderExpectation, isFolderName } from '../../../shared/values/upload-names.ts'
import { flag, instantView, nameText, oneOf, positiveId } from '../../api/fields.ts'

/** API keys in requests and replies. */

export const apiKeyView = z
  .object({
    id: z.int(),
    organization_id: z.int(),
    name: z.string(),
    role: z.enum(roles).describe('the effective role: that of the user when the key has one'),
    active: z.boolean(),
    user_id: z.int().nullable(),
    uploads_folder: z.string().nullable(),
    created_at: instantView(),
    last_used_at: instantView()
      .nullable()
      .describe('when it was last used, true to 10 minutes; null where it never was'),
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
  uploads_folder: null,
  created_at: '2026-11-21T09:00:00+01:00',
  last_used_at: '2026-11-24T02:00:00+01:00',
}

const uploadsFolder = z
  .string()
  .refine(isFolderName, { error: folderExpectation })
  .nullable()
  .meta({ override: { anyOf: [{ type: 'string', pattern: '^[A-Za-z0-9_-]{1,50}$' }, { type: 'null' }] } })

export const apiKeyCreation = z.object({
  name: nameText(100),
  role: oneOf(roles).default('organization_admin'),
  active: flag().default(true),
  user_id: positiveId().nullable().default(null),
  uploads_folder: uploadsFolder.default(null),
})
export type ApiKeyCreation = z.infer<typeof apiKeyCreation>

export const apiKeyChange = z
  .object({
    name: nameText(100),
    role: oneOf(roles),
    active: flag(),
    user_id: positiveId().nullable(),
    uploads_folder: uploadsFolder,
  })
  .partial()
export type ApiKeyChange = z.infer<typeof apiKeyChange>
