import { refusal } from '../../api/refusal.ts'

export const maxEvents = 1_000

export const tooManyEvents = refusal(
  'requested_too_many',
  (count: number) =>
    `${count} events were sent, and ${maxEvents} are possible at once: send them in several calls`,
  1_200,
)
