import { z } from 'zod'
import { importStates } from '../../../shared/contract/import-state.ts'
import { instantView } from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'

/** Jobs in requests and replies. */

export const jobTypes = ['SubscriberImport'] as const

const instant = (what: string) => instantView().describe(`${what}, ISO 8601 in the organization's time zone`)

export const jobView = z
  .object({
    id: z.int().min(1).describe('id of the job, which is that of its import'),
    mailing_list_id: z.int().describe('the mailing list that it works on'),
    organization_id: z.int().describe('the organization that it works for'),
    suppression_list_id: z.null().describe('always null: this service has no suppression lists'),
    state: z.enum(importStates).describe('the state of its import'),
    state2: z.null().describe('always null: only campaigns have a second state'),
    paused: z.boolean().describe('whether it is paused'),
    name: z.string().describe("the name of its import's file"),
    progress_value: z.int().min(0).describe('records processed so far'),
    progress_total: z.int().min(0).nullable().describe('all records; null until the number is known'),
    job_type: z.enum(jobTypes).describe('what kind of work it is'),
    begins_at: instant('when it is due to begin'),
    started_at: instant('when it began').nullable(),
    finished_at: instant('when it finished, failed or was cancelled').nullable(),
    created_at: instant('when it was created'),
    updated_at: instant('the latest of its creation, begin and end'),
    retry_at: instant('when the failed step is tried again').nullable(),
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

const timeBound = (what: string) =>
  z
    .string()
    .optional()
    .describe(
      `only jobs that ${what} this; ISO 8601 with a time (the plus sign sent as %2B), or UNIX seconds`,
    )
const commaSeparated = (what: string) =>
  z.string().optional().describe(`only jobs of ${what}, separated by commas; an unknown one matches nothing`)

export const jobQuery = tokenPagingQuery({ perPage: 2000, max: 2000 }).safeExtend({
  begins_at__after: timeBound('begin after'),
  begins_at__before: timeBound('begin before'),
  finished_at__after: timeBound('ended after'),
  finished_at__before: timeBound('ended before'),
  state: commaSeparated('these states'),
  job_type: commaSeparated('these types'),
})
export type JobQuery = z.infer<typeof jobQuery>
