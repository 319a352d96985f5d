import { z } from 'zod'
import { importStates } from '../../../shared/contract/import-state.ts'
import { instantView } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'

/** What jobs look like in requests and replies. */

export const jobTypes = ['SubscriberImport'] as const

const instant = (what: string) => instantView().describe(`${what}, ISO 8601 in the organization's time zone`)

export const jobView = z
  .object({
    id: z.int().min(1).describe('id of the job: that of its import'),
    mailing_list_id: z.int().describe('the mailing list that it works on'),
    organization_id: z.int().describe('the organization that it works for'),
    suppression_list_id: z.null().describe('always null: there are no suppression lists here'),
    state: z.enum(importStates).describe('the state of its import'),
    state2: z.null().describe('always null: only campaigns have a second state'),
    paused: z.boolean().describe('whether it is paused'),
    name: z.string().describe("the name of its import's file"),
    progress_value: z.int().min(0).describe('records done so far'),
    progress_total: z.int().min(0).nullable().describe('records in all; null until they are known'),
    job_type: z.enum(jobTypes).describe('what kind of work it is'),
    begins_at: instant('when it is to begin'),
    started_at: instant('when it began').nullable(),
    finished_at: instant('when it ended, in whatever way').nullable(),
    created_at: instant('when it was created'),
    updated_at: instant('the latest of its creation, begin and end'),
    retry_at: instant('when a step that failed is tried again').nullable(),
  })
  .meta({ id: 'Job' })
export type JobView = z.infer<typeof jobView>

export const exampleJob: JobView = {
  id: 4711,
  mailing_list_id: 12,
  organization_id: 2,
  suppression_list_id: null,
  state: 'importing',
  state2: null,
  paused: false,
  name: 'subscribers.csv',
  progress_value: 40_000,
  progress_total: 100_000,
  job_type: 'SubscriberImport',
  begins_at: '2026-11-21T09:00:00+01:00',
  started_at: '2026-11-21T09:00:01+01:00',
  finished_at: null,
  created_at: '2026-11-21T08:59:00+01:00',
  updated_at: '2026-11-21T09:00:01+01:00',
  retry_at: null,
}

const time = (what: string) =>
  z
    .string()
    .optional()
    .describe(
      `only jobs that ${what} this; ISO 8601 with a time (the plus sign sent as %2B), or UNIX seconds`,
    )
const several = (what: string) =>
  z.string().optional().describe(`only jobs of ${what}; several with commas; an unknown one matches nothing`)

export const jobQuery = tokenPagingQuery({ perPage: 2000, max: 2000 }).safeExtend({
  begins_at__after: time('begin after'),
  begins_at__before: time('begin before'),
  finished_at__after: time('ended after'),
  finished_at__before: time('ended before'),
  state: several('these states'),
  job_type: several('these types'),
})
export type JobQuery = z.infer<typeof jobQuery>
