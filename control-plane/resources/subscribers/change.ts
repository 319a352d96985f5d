import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { lastKnownTime } from '../../../shared/store/leases.ts'
import {
  changed,
  changeInPlace,
  changeSubscriber,
  filterOf,
  type SubscriberAddress,
  type SubscriberChange,
} from '../../store/subscribers.ts'
import { isGrownTooLarge, valuesBytes, valuesTooLarge } from '../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { missing } from '../../api/scope.ts'
import { refuseProblems, mapDuplicateKey } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { planReactions } from './autoresponders.ts'
import { addressOf, isPoint, subscriberAt } from './find.ts'
import { identityOf, readGiven, type GivenValues } from './given-values.ts'
import { findSubscriberList, type SubscriberList } from './list-context.ts'
import { retryOnListChange, refuseWrite, takenIdentity } from './outcomes.ts'
import type { GivenUpdate } from './schemas.ts'
import { toView } from './view.ts'

/**
 * Changes what is given of a subscriber. Resolves to its view. Throws `not_found` (list, subscriber),
 * `multiple_records_found`, `validation_failed` (values, an identity that is taken, a subscriber limit), and what
 * `retryOnListChange` throws.
 */
export async function updateSubscriber(
  deps: ControlPlane,
  caller: Caller,
  path: { listText: string | undefined; subscriberText: string },
  body: () => GivenUpdate,
): Promise<ReturnType<typeof toView>> {
  return retryOnListChange(async () => {
    const fieldsReadAt = lastKnownTime()
    const context = await findSubscriberList(deps, caller, path.listText)
    const { list } = context
    const address = addressOf(list, path.subscriberText)
    if (address === null) throw missing('subscriber', path.subscriberText)
    const given = await parseBodyAfterLookup(body, () => refuseUnlessOne(deps, address, path.subscriberText))
    const problems: string[] = []
    const values = readGiven(given, { context, problems })
    const reactions = given.run_autoresponders ? await planReactions(deps, context, given) : undefined

    let after: SubscriberDocument | undefined
    const change = (existing: SubscriberDocument): SubscriberChange => {
      const now = clock.now()
      const changes = changeOf({ existing, given, values, context, now, problems: [...problems] })
      after = changed(existing, changes)
      return changes
    }
    const options = {
      listRevision: list.revision,
      ...(reactions === undefined ? {} : { reactions }),
    }
    // Whether a required field may be set to null hangs on what is there, as its transaction sees it.
    const unsetsRequired = [...values.fields].some(
      ([id, value]) =>
        value === null && context.fields.some(({ field }) => field.id === id && field.required),
    )
    if (reactions === undefined && !unsetsRequired && isPoint(address)) {
      const existing = await subscriberAt(deps.database, address)
      const written =
        existing === null
          ? null
          : await changeInPlace(deps.database, existing, change(existing), fieldsReadAt)
      if (written !== null) return { done: toView(written, context) }
    }
    const outcome = await mapDuplicateKey(takenIdentity, () =>
      changeSubscriber(deps.database, list.organization_id, address, change, options),
    )
    if (outcome === 'list_changed') return 'again'
    refuseWrite(outcome, path.subscriberText)
    return { done: toView(after!, context) }
  })
}

/** A faulty body is told only of a record that is there; that is looked up when the body turns out to be faulty. */
export async function parseBodyAfterLookup<Body>(
  body: () => Body,
  refuseRecord: () => Promise<void>,
): Promise<Body> {
  try {
    return body()
  } catch (error) {
    await refuseRecord()
    throw error
  }
}

/** Throws `not_found` or `multiple_records_found`, which name the subscriber as `shown`. */
export async function refuseUnlessOne(
  { database }: ControlPlane,
  address: SubscriberAddress,
  shown: string,
): Promise<void> {
  const found = await database.collections.subscribers
    .find(filterOf(address), { projection: { _id: 1 } })
    .limit(2)
    .toArray()
  refuseWrite(found.length === 0 ? 'missing' : found.length > 1 ? 'several' : 'done', shown)
}

interface Changing {
  existing: SubscriberDocument
  given: Partial<GivenUpdate>
  values: GivenValues
  context: SubscriberList
  now: Date
  problems: string[]
}

/** What an update changes of a subscriber; throws what is wrong with it. */
export function changeOf({ existing, given, values, context, now, problems }: Changing): SubscriberChange {
  const { list, primaryKey } = context
  const change: SubscriberChange = { set: {}, unset: [] }
  changeFields(change, { existing, values, context, problems })
  refuseProblems(problems)
  if (values.email !== undefined) change.set.email = values.email
  if (values.emailKey !== undefined && primaryKey !== null) change.set.email_key = values.emailKey
  const identity = identityOf(values, context)
  const key = identity === undefined ? existing._id : subscriberKey(list._id, identity)
  if (key !== existing._id) change.set._id = key
  if (list.has_format && given.email_format !== undefined) change.set.format = given.email_format
  if (list.has_confirmed) changeConfirmation(change, { existing, given, values, now })
  changeStatus(change, { existing, given, values, now })
  return change
}

function changeFields(
  change: SubscriberChange,
  { existing, values, context, problems }: Pick<Changing, 'existing' | 'values' | 'context' | 'problems'>,
): void {
  const { set, unset } = change
  for (const { field } of context.fields) {
    const value = values.fields.get(field.id)
    if (value === undefined) continue
    if (value !== null) set[`custom_fields.${field.id}`] = value
    else if (!field.required) unset.push(`custom_fields.${field.id}`)
    else if (existing.custom_fields[field.id] !== undefined)
      problems.push(`custom_fields.${field.name} is required and can't be unset`)
  }
  if (values.fields.size === 0) return
  const after = changed(existing, change).custom_fields
  if (isGrownTooLarge(valuesBytes(existing.custom_fields), valuesBytes(after))) problems.push(valuesTooLarge)
}

function changeConfirmation(
  change: SubscriberChange,
  { existing, given, values, now }: Pick<Changing, 'existing' | 'given' | 'values' | 'now'>,
): void {
  if (given.confirmed !== undefined) change.set.confirmed = given.confirmed
  const wasConfirmed = existing.confirmed === true
  if (given.confirmed ?? wasConfirmed)
    change.set = {
      ...change.set,
      ...timeOf('confirm_time', { given: values.confirmTime, existing, isNew: !wasConfirmed, now }),
    }
  else if (given.confirmed === false) change.unset.push('confirm_time')
}

/** Who leaves or comes back: with the time and address of the removal, or without. */
function changeStatus(
  change: SubscriberChange,
  { existing, given, values, now }: Pick<Changing, 'existing' | 'given' | 'values' | 'now'>,
): void {
  const to = given.status ?? existing.status
  if (given.status !== undefined) change.set.status = given.status
  if (values.subscribeTime !== undefined) change.set.subscribe_time = values.subscribeTime
  setOrUnset(change, 'subscribe_ip', values.subscribeIp)
  if (to === 'active') {
    if (existing.status !== 'active') change.unset.push('remove_time', 'remove_ip')
    return
  }
  const leaves = existing.status === 'active'
  change.set = {
    ...change.set,
    ...timeOf('remove_time', { given: values.removeTime, existing, isNew: leaves, now }),
  }
  setOrUnset(change, 'remove_ip', values.removeIp)
}

/** Who has been removed or confirmed has the time of it: null leaves the one that is there, or is now where there is none. */
function timeOf(
  key: 'remove_time' | 'confirm_time',
  { given, existing, isNew, now }: TimeGiven,
): Partial<SubscriberDocument> {
  const isMissing = isNew || (given === null && existing[key] === undefined)
  const time = given ?? (isMissing ? now : undefined)
  return time === undefined ? {} : { [key]: time }
}

interface TimeGiven {
  given: Date | null | undefined
  existing: SubscriberDocument
  isNew: boolean
  now: Date
}

function setOrUnset(
  change: SubscriberChange,
  key: 'subscribe_ip' | 'remove_ip',
  value: string | null | undefined,
): void {
  if (value === undefined) return
  if (value === null) change.unset.push(key)
  else change.set = { ...change.set, [key]: value }
}
