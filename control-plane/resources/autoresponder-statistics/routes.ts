import { endpoint, permission } from '../../api/endpoint.ts'
import { autoresponderInPath } from '../autoresponders/service.ts'
import { exampleStatistics, sendingDays, statisticsView } from './schemas.ts'
import { sumDays } from './service.ts'
import { computeStatistics } from './view.ts'

const firstDay = 0
const lastDay = 99_991_231

export const autoresponderStatisticsEndpoints = [
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/autoresponders/:id/statistics',
    operationId: 'getAutoresponderStatistics',
    summary:
      "Statistics of an autoresponder's mails; the period is one of sending days in the organization's time zone",
    tag: 'Autoresponders',
    needs: permission('autoresponder', 'read_stats'),
    query: sendingDays,
    slot: 'costly',
    reply: { data: statisticsView, example: exampleStatistics },
    record: autoresponderInPath,
    async handle({ deps, record, query }) {
      const { start_date: first = firstDay, end_date: last = lastDay } = query
      const { counts, bounceCodes } = await sumDays(deps.database, record.autoresponder._id, { first, last })
      return { data: computeStatistics(counts, bounceCodes) }
    },
  }),
]
