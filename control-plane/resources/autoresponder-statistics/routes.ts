import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
import { findAutoresponder } from '../autoresponders/service.ts'
import { dayExpectation, exampleStatistics, sendingDays, statisticsView } from './schemas.ts'
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
    isCostly: true,
    reply: { data: statisticsView, example: exampleStatistics },
    refusals: {
      not_found: 'there is no autoresponder 4711',
      invalid_request: [
        remoteListRefusal,
        ...['start_date', 'end_date'].map((name) => `${name} ${dayExpectation}`),
      ],
    },
    async handle({ deps, caller, params, query }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const { _id: id } = await findAutoresponder(deps, list, params['id'])
      const { start_date: first = firstDay, end_date: last = lastDay } = query()
      const { counts, bounceCodes } = await sumDays(deps.database, id, { first, last })
      return { data: computeStatistics(counts, bounceCodes) }
    },
  }),
]
