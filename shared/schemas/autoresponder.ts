import { z } from 'zod'
import { id, instant } from './bson-schema.ts'

export const autoresponderTriggers = [
  'subscription',
  'api',
  'campaign_open',
  'campaign_click',
  'autoresponder_open',
  'autoresponder_nonopen',
  'autoresponder_click',
  'autoresponder_nonclick',
  'autoresponder_send',
] as const

/** What an import needs to know of an autoresponder. */
export const autoresponderDocument = z.object({
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  name: z.string(),
  /** Comparison form of the name, unique in the list. */
  name_key: z.string(),
  trigger: z.enum(autoresponderTriggers),
  /** Of on-subscription ones: whether subscribers that an import brings count. */
  trigger_include_subscribers_from_import: z.boolean(),
  /** Of on-subscription ones: whether subscribers that a request adds count; absent: they do. */
  trigger_run_on_api: z.boolean().optional(),
  created_at: instant(),
})
export type AutoresponderDocument = z.infer<typeof autoresponderDocument>

/**
 * That an autoresponder is to answer something that happened to a subscriber. Written in the transaction in which it
 * happened, so neither is there without the other.
 */
export const reactionDocument = z.object({
  /** See importReactionId and requestReactionId: a subscriber's reactions lie side by side, and each cause gives one at most. */
  _id: z.string(),
  id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  autoresponder_id: id(),
  subscriber_id: id(),
  /** The import that caused it; null for everything else. */
  import_id: id().nullable(),
  state: z.enum(['queued']),
  created_at: instant(),
})
export type ReactionDocument = z.infer<typeof reactionDocument>

/** `_id` of the one reaction that an import causes for a subscriber and an autoresponder. */
export const importReactionId = (subscriberId: number, autoresponderId: number, importId: number): string =>
  `${subscriberId}:${autoresponderId}:import ${importId}`

/** `_id` of a reaction that a request causes; each request is a cause of its own. */
export const requestReactionId = (
  subscriberId: number,
  autoresponderId: number,
  reactionId: number,
): string => `${subscriberId}:${autoresponderId}:request ${reactionId}`

/** The filter on `_id` for all reactions of a subscriber: ";" follows ":". */
export const reactionsOfSubscriber = (subscriberId: number) => ({
  $gte: `${subscriberId}:`,
  $lt: `${subscriberId};`,
})
