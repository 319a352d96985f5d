import { z } from 'zod'
import { oldEndpoint as endpoint } from '../../api/endpoint.ts'
import { findSubscriberList } from '../subscribers/service.ts'
import { exampleReaction, reactionQuery, reactionView } from './schemas.ts'
import { listReactions } from './service.ts'

export const reactionEndpoints = [
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/reactions',
    operationId: 'listReactions',
    summary: "Reactions of the list's autoresponders, by id; a deleted subscriber's are gone",
    tag: 'Reactions',
    needs: 'any_key',
    query: reactionQuery,
    reply: { data: z.array(reactionView), paging: 'tokens', example: [exampleReaction] },
    async handle({ deps, caller, params, query }) {
      const context = await findSubscriberList(deps, caller, params['mailing_list_id'])
      return listReactions(deps, context, query())
    },
  }),
]
