import type { Endpoint } from './api/endpoint.ts'
import { apiKeyEndpoints } from './resources/api-keys/routes.ts'
import { auditEventEndpoints } from './resources/audit-events/routes.ts'
import { autoresponderStatisticsEndpoints } from './resources/autoresponder-statistics/routes.ts'
import { autoresponderEndpoints } from './resources/autoresponders/routes.ts'
import { campaignTemplateEndpoints } from './resources/campaign-templates/routes.ts'
import { confirmationFormEndpoints } from './resources/confirmation-forms/routes.ts'
import { customFieldEndpoints } from './resources/custom-fields/routes.ts'
import { deliveryEventEndpoints } from './resources/delivery-events/routes.ts'
import { importInspectionEndpoints } from './resources/import-inspection/routes.ts'
import { jobEndpoints } from './resources/jobs/routes.ts'
import { mailingListEndpoints } from './resources/mailing-lists/routes.ts'
import { organizationEndpoints } from './resources/organizations/routes.ts'
import { outboxEndpoints } from './resources/outbox/routes.ts'
import { reactionEndpoints } from './resources/reactions/routes.ts'
import { serviceStateEndpoints } from './resources/service-state/routes.ts'
import { subscriberCountEndpoints } from './resources/subscriber-counts/routes.ts'
import { subscriberImportEndpoints } from './resources/subscriber-imports/routes.ts'
import { subscriberEndpoints } from './resources/subscribers/routes.ts'
import { uploadEndpoints } from './resources/uploads/routes.ts'
import { userEndpoints } from './resources/users/routes.ts'
import { whoamiEndpoints } from './resources/whoami/routes.ts'

/**
 * Every endpoint of the API. The first match wins, so a fixed segment stands before a parameter at the same position.
 * Every request tries the paths before its own, so those that are called most come first.
 */
export const endpoints: readonly Endpoint[] = [
  ...subscriberEndpoints,
  ...subscriberImportEndpoints,
  ...organizationEndpoints,
  ...apiKeyEndpoints,
  ...userEndpoints,
  ...mailingListEndpoints,
  ...customFieldEndpoints,
  ...confirmationFormEndpoints,
  ...autoresponderEndpoints,
  ...campaignTemplateEndpoints,
  ...autoresponderStatisticsEndpoints,
  ...deliveryEventEndpoints,
  ...importInspectionEndpoints,
  ...uploadEndpoints,
  ...reactionEndpoints,
  ...outboxEndpoints,
  ...subscriberCountEndpoints,
  ...jobEndpoints,
  ...auditEventEndpoints,
  ...whoamiEndpoints,
  ...serviceStateEndpoints,
]
