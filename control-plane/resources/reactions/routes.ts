import { z } from 'zod'
import { endpoint } from '../../api/endpoint.ts'
import { subscriberListInPath } from '../subscribers/service.ts'
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
    record: subscriberListInPath,
    handle: ({ deps, record, query }) => listReactions(deps, record, query),
  }),
]
