import { apiKeyRows } from './conformance/api-keys.ts'
import { auditEventRows } from './conformance/audit-events.ts'
import { autoresponderRows } from './conformance/autoresponders.ts'
import { campaignTemplateRows } from './conformance/campaign-templates.ts'
import { confirmationFormRows } from './conformance/confirmation-forms.ts'
import { customFieldRows } from './conformance/custom-fields.ts'
import { deliveryEventRows } from './conformance/delivery-events.ts'
import { importInspectionRows } from './conformance/import-inspection.ts'
import { jobRows } from './conformance/jobs.ts'
import { mailingListRows } from './conformance/mailing-lists.ts'
import { organizationRows } from './conformance/organizations.ts'
import { outboxRows } from './conformance/outbox.ts'
import type { Rows } from './conformance/row.ts'
import { subscriberCountRows } from './conformance/subscriber-counts.ts'
import { subscriberImportRows } from './conformance/subscriber-imports.ts'
import { subscriberRows } from './conformance/subscribers.ts'
import { triggeringRows } from './conformance/triggering.ts'
import { uploadRows } from './conformance/uploads.ts'
import { userRows } from './conformance/users.ts'

/** A row for each endpoint, by operationId; an endpoint without one fails the conformance test. */
export const conformanceRows: Rows = {
  ...organizationRows,
  ...apiKeyRows,
  ...userRows,
  ...mailingListRows,
  ...customFieldRows,
  ...subscriberImportRows,
  ...importInspectionRows,
  ...subscriberRows,
  ...triggeringRows,
  ...confirmationFormRows,
  ...autoresponderRows,
  ...campaignTemplateRows,
  ...subscriberCountRows,
  ...jobRows,
  ...deliveryEventRows,
  ...outboxRows,
  ...uploadRows,
  ...auditEventRows,
}
