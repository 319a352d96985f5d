import type { RunningProcess } from './service.ts'

type Logged = Pick<RunningProcess, 'log'>

/** Whether the process was ended because its stop took longer than it may (shared/runtime/service.ts). */
export const stopTookTooLong = ({ log }: Logged): boolean => log().includes('the stop took longer than')

/** Whether the engine ended without an answer of the database to the release of its work. */
export const couldNotRelease = ({ log }: Logged): boolean =>
  /couldn't be released.*the database gave no answer/.test(log())
