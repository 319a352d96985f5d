import { until } from './service.ts'

/** What `/readyz` beside these metrics says, once the database answers the process in the 2 s that it is given. */
export const readinessAt = (metricsUrl: string): Promise<{ status: number; text: string }> =>
  until(
    'an answer of the database',
    async () => {
      const response = await fetch(metricsUrl.replace(/metrics$/, 'readyz'))
      return { status: response.status, text: await response.text() }
    },
    ({ text }) => !/timed out|timeout/i.test(text),
  )
