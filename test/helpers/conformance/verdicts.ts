import type { Test } from 'tap'
import type { Answer } from '../service.ts'

/** Whether answers are those that are due. */

export function refused(t: Test, answer: Answer, code: string, what: string, status = 200): void {
  t.equal(answer.status, status, `${what}: ${answer.text.slice(0, 300)}`)
  t.match(answer.body, { success: false, data: null, error_code: code, error_message: /\w/ }, what)
}

export function succeeded(t: Test, answer: Answer, what: string): void {
  t.equal(answer.status, 200, `${what}: ${answer.text.slice(0, 300)}`)
  if (answer.body !== undefined) t.equal(answer.body.success, true, `${what}: ${answer.text.slice(0, 300)}`)
}

/** Why an answer isn't the refusal that is due; null when it is. */
export function faultOf(
  answer: Answer,
  code: string,
  names: RegExp | string,
  what: string,
  status = 200,
): string | null {
  const { body } = answer
  const isNamed =
    typeof names === 'string' ? String(body?.error_message).includes(names) : names.test(body?.error_message)
  const isDue =
    answer.status === status && body?.success === false && body.data === null && body.error_code === code
  return isDue && isNamed ? null : `${what}: ${answer.status} ${answer.text.slice(0, 200)}`
}

export type Trial = () => Promise<string | null>

/** Makes the trials, some at a time; passes when none of them finds a fault. */
export async function checkTrials(t: Test, trials: Trial[], title: string): Promise<void> {
  const faults: (string | null)[] = []
  for (let i = 0; i < trials.length; i += 6)
    faults.push(...(await Promise.all(trials.slice(i, i + 6).map((trial) => trial()))))
  t.same(
    faults.filter((fault) => fault !== null),
    [],
    `${title}: ${trials.length} requests`,
  )
}
