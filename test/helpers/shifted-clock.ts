import { clock } from '../../shared/runtime/clock.ts'

/**
 * Loaded into a process before anything else (`node --import`), worker threads included. Its clock is ahead by
 * ROLLCALL_TEST_CLOCK_AHEAD_MS, or behind when that is negative.
 */
const aheadMs = Number(process.env['ROLLCALL_TEST_CLOCK_AHEAD_MS'])
clock.now = () => new Date(Date.now() + aheadMs)
