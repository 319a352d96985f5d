import { comparisonForm } from '../../shared/values/identity.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { ApiClient } from './api-client.ts'
import { CommandFailure, usage } from './failures.ts'

/** Finds a mailing list by its id, or by its name without case. A text of digits alone is an id. */
export async function findList(client: ApiClient, idOrName: string): Promise<MailingListView> {
  const text = idOrName.trim()
  if (/^\d+$/.test(text)) return client.get<MailingListView>(`/mailing_lists/${text}`)
  if (text === '') throw usage('the mailing list must be an id or a name, and is blank')
  for await (const list of client.list<MailingListView>('/mailing_lists'))
    if (comparisonForm(list.name) === comparisonForm(text)) return list
  throw new CommandFailure(`there is no mailing list ${JSON.stringify(text)}`, {
    hint: '"rollcall list list" shows the mailing lists',
  })
}
