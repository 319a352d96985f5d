import t from 'tap'
import type { Decision } from '../../../../shared/csv/row-decision.ts'
import { cleared } from '../../../../shared/csv/row-decision.ts'
import { isGrownTooLarge, makesTooLarge, valueBytes } from '../../../../shared/store/value-bytes.ts'
import { makePlan } from '../../../helpers/make-plan.ts'

/** The contract's 4 MiB. */
const limit = 4_194_304

t.test('values may grow up to the limit, and beyond it only shrink', (t) => {
  t.equal(isGrownTooLarge(0, limit), false)
  t.equal(isGrownTooLarge(0, limit + 1), true)
  t.equal(isGrownTooLarge(limit, limit + 1), true)
  t.equal(isGrownTooLarge(limit + 9, limit + 9), false, 'as many as before')
  t.equal(isGrownTooLarge(limit + 9, limit + 8), false, 'fewer')
  t.equal(isGrownTooLarge(limit + 9, limit + 10), true, 'more')
  t.end()
})

t.test('a row may replace values of a subscriber over the limit by smaller ones', (t) => {
  const field = { field_type: 'text', name: 'F' }
  const plan = makePlan({
    fields: [
      { ...field, id: 1 },
      { ...field, id: 2 },
    ] as never,
  })
  const sizes = new Map([
    ['1', 3_000_000],
    ['2', 2_000_000],
    ['9', 1_000_000],
  ])
  const isRefused = (...values: unknown[]) => {
    const decision = { result: 'updated', update: { values } } as Extract<Decision, { result: 'updated' }>
    return makesTooLarge(decision, plan, sizes)
  }
  const text = (bytes: number) => 'x'.repeat(bytes - valueBytes(2, ''))
  t.equal(isRefused(null, null), false, 'a row that leaves both')
  t.equal(isRefused(null, text(2_000_000)), false, 'as many bytes')
  t.equal(isRefused(null, text(2_000_001)), true, 'one more')
  t.equal(isRefused(cleared, null), false, 'one is cleared')
  t.equal(isRefused(cleared, text(3_194_304)), false, 'one grows up to the limit while the other goes')
  t.equal(isRefused(text(3_000_001), text(1_999_999)), false, 'the sum counts')
  t.end()
})
