import { clock } from '../../../../shared/runtime/clock.ts'
import type { FieldValue } from '../../../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { isGrownTooLarge, valuesBytes } from '../../../../shared/store/value-bytes.ts'
import type { EmailAddress } from '../../../../shared/values/email.ts'
import { subscriberKey } from '../../../../shared/values/identity.ts'
import type { Call, RecordOfPath } from '../../../api/endpoint.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { refuseAll } from '../../../api/validation.ts'
import { applyValues, type SubscriberChange } from '../../../store/subscriber-change.ts'
import { writeSubscriber } from '../../../store/write-subscriber.ts'
import { readEmail, readIdentity, readValues, type SubscriberValues } from '../check-values/service.ts'
import { customFieldsTooLarge, noSubscriber, requiredFieldUnset, severalSubscribers } from '../refusals.ts'
import type { SubscriberUpdate, SubscriberView } from '../schemas.ts'
import {
  checkedAgainst,
  isUnique,
  readAhead,
  readSubscriberPath,
  refuseUnlessOne,
  subscriberListInPath,
  writeRefusal,
  type NamedSubscriber,
  type SubscriberList,
} from '../service.ts'
import { planReactions } from '../trigger-autoresponders/choice.ts'
import { toView } from '../view.ts'
import { subscriberTransition } from '../../../../shared/values/subscriber-transition.ts'

interface FoundSubscriber extends NamedSubscriber {
  /** Null where an email may name several subscribers. */
  existing: SubscriberDocument | null
  /** The database's time as of its last answer to `hello`, which is earlier than the reads of list and fields. */
  fieldsReadAt: Date
}

/** The one subscriber that the path names. */
export const subscriberInPath: RecordOfPath<FoundSubscriber> = {
  refusals: [...subscriberListInPath.refusals, noSubscriber, severalSubscribers],
  async find(call) {
    const { deps } = call
    const fieldsReadAt = deps.database.local.leaseWatch.lastKnown.time
    const find = readAhead(call)
    const named = await readSubscriberPath(call)
    const { reference, text } = named
    if (!isUnique(reference)) {
      await refuseUnlessOne(deps, reference, text)
      return { ...named, existing: null, fieldsReadAt }
    }
    const existing = await find(reference)
    if (existing === null) throw noSubscriber(text)
    return { ...named, existing, fieldsReadAt }
  },
}

/**
 * Changes those values of a subscriber that the body has. Resolves to its view. Throws `not_found` (a subscriber that is
 * deleted meanwhile), `multiple_records_found`, `validation_failed` (values, an identity that is taken, a subscriber
 * limit), and 503 where the list keeps changing.
 */
export async function updateSubscriber(
  call: Call<unknown, SubscriberUpdate, FoundSubscriber>,
): Promise<SubscriberView> {
  const { deps, body } = call
  const result = await writeSubscriber(deps, {
    found: call.record,
    findAgain: () => subscriberInPath.find(call),
    async plan({ context, reference, existing, fieldsReadAt }) {
      const update = readUpdate(body, context)
      const reactions = body.run_autoresponders ? await planReactions(deps, context, body) : undefined
      const mayBeInPlace = reactions === undefined && !unsetsRequiredField(update)
      return {
        ...checkedAgainst(context),
        change: {
          reference,
          decide: (stored) => ({ change: planChange(stored, update), reactions }),
          inPlace: mayBeInPlace && existing !== null ? { existing, fieldsReadAt } : undefined,
        },
      }
    },
  })
  if (result.outcome !== 'done') throw writeRefusal(result.outcome, call.record.text)
  return toView(result.after, result.found.context)
}

/** An update, read against its list. */
interface ReadUpdate {
  body: Pick<SubscriberUpdate, 'status' | 'email_format' | 'confirmed'>
  email: EmailAddress | undefined
  values: SubscriberValues
  problems: readonly RequestError[]
  context: SubscriberList
}

export function readUpdate(body: Partial<SubscriberUpdate>, context: SubscriberList): ReadUpdate {
  const problems: RequestError[] = []
  const email = body.email === undefined ? undefined : readEmail(body.email, problems)
  return { body, email, values: readValues(body, { context, problems }), problems, context }
}

/**
 * Whether the body unsets a required field. That is allowed only where no value is stored, which only the transaction
 * can check.
 */
const unsetsRequiredField = ({ values, context }: ReadUpdate): boolean =>
  context.fields.some(({ field }) => field.required && values.fields.get(field.id) === null)

/** What an update changes of a subscriber. Throws `validation_failed` with all problems. */
export function planChange(existing: SubscriberDocument, update: ReadUpdate): SubscriberChange {
  const { body, email, values, context } = update
  const { list, primaryKey } = context
  const problems = [...update.problems]
  const change: SubscriberChange = { set: {}, unset: [], values: planFields(existing, update, problems) }
  refuseAll(problems)
  if (email !== undefined) change.set.email = email.address
  if (email !== undefined && primaryKey !== null) change.set.email_key = email.key
  const identity = readIdentity(email?.key, values.fields, context)
  const key = identity === undefined ? existing._id : subscriberKey(list._id, identity)
  if (key !== existing._id) change.set._id = key
  if (list.has_format && body.email_format !== undefined) change.set.format = body.email_format
  const now = clock.now()
  if (list.has_confirmed) planConfirmation(change, existing, update, now)
  planStatus(change, existing, update, now)
  return change
}

function planFields(
  existing: SubscriberDocument,
  { values, context }: ReadUpdate,
  problems: RequestError[],
): SubscriberChange['values'] {
  const changes = new Map<number, FieldValue | null>()
  if (values.fields.size === 0) return changes
  for (const { field } of context.fields) {
    const value = values.fields.get(field.id)
    if (value === undefined) continue
    if (value !== null || !field.required) changes.set(field.id, value)
    else if (existing.custom_fields[field.id] !== undefined) problems.push(requiredFieldUnset(field.name))
  }
  const before = existing.custom_fields
  if (isGrownTooLarge(valuesBytes(before), valuesBytes(applyValues(before, changes))))
    problems.push(customFieldsTooLarge())
  return changes
}

function planConfirmation(
  { set, unset }: SubscriberChange,
  existing: SubscriberDocument,
  { body, values }: ReadUpdate,
  now: Date,
): void {
  if (body.confirmed !== undefined) set.confirmed = body.confirmed
  const wasConfirmed = existing.confirmed === true
  if (body.confirmed ?? wasConfirmed) {
    const time = timeOfEvent(values.confirmTime, wasConfirmed ? existing.confirm_time : null, now)
    if (time !== undefined) set.confirm_time = time
  } else if (body.confirmed === false) unset.push('confirm_time')
}

/** A removed subscriber has the time and address of its removal; one that returns loses them. */
function planStatus(
  { set, unset }: SubscriberChange,
  existing: SubscriberDocument,
  { body, values }: ReadUpdate,
  now: Date,
): void {
  if (body.status !== undefined) set.status = body.status
  if (values.subscribeTime !== undefined) set.subscribe_time = values.subscribeTime
  if (values.subscribeIp === null) unset.push('subscribe_ip')
  else if (values.subscribeIp !== undefined) set.subscribe_ip = values.subscribeIp

  const { removal } = subscriberTransition(existing.status, body.status ?? existing.status)
  if (removal === 'ends') unset.push('remove_time', 'remove_ip')
  if (removal === 'ends' || removal === 'none') return
  const time = timeOfEvent(values.removeTime, removal === 'begins' ? null : existing.remove_time, now)
  if (time !== undefined) set.remove_time = time
  if (values.removeIp === null) unset.push('remove_ip')
  else if (values.removeIp !== undefined) set.remove_ip = values.removeIp
}

/**
 * The time to store of a removal or confirmation; undefined leaves the stored one. `stored` is null when the event
 * happens by this update. A null in the body never unsets the time; where none is stored, it stores `now`.
 */
function timeOfEvent(
  time: Date | null | undefined,
  stored: Date | null | undefined,
  now: Date,
): Date | undefined {
  const isMissing = stored === null || (time === null && stored === undefined)
  return time ?? (isMissing ? now : undefined)
}
