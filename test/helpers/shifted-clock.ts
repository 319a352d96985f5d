import { clock } from '../../shared/runtime/clock.ts'

/**
 * Loaded into a process before anything else (`node --import`), worker threads included: its clock is ahead by as many
 * milliseconds as ROLLCALL_TEST_CLOCK_AHEAD_MS says, or behind.
 */
const aheadMs = Number(process.env['ROLLCALL_TEST_CLOCK_AHEAD_MS'])
clock.now = () => new Date(Date.now() + aheadMs)
