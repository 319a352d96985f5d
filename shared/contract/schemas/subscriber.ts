import type { z } from 'zod'
import type { subscriberDocument } from './subscriber-schema.ts'

export const subscriberStatuses = ['active', 'bounced', 'unsubscribed', 'scomp', 'deactivated'] as const
export type SubscriberStatus = (typeof subscriberStatuses)[number]

export const emailFormats = ['html', 'text', 'both'] as const
export type EmailFormat = (typeof emailFormats)[number]

export type SubscriberDocument = z.infer<typeof subscriberDocument>
