import t from 'tap'
import { runCampaign } from '../campaigns/differential.ts'
import { startService } from '../helpers/service.ts'

/**
 * The service against the model in test/model. More of it by hand, and a single list of a seed:
 * `ROLLCALL_CASES=2000 ROLLCALL_SEED=7 npm run tap -- test/e2e/differential.test.ts`, `ROLLCALL_LIST=12`.
 */
const cases = Number(process.env['ROLLCALL_CASES'] ?? 150)
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)
const onlyList = process.env['ROLLCALL_LIST']

t.setTimeout(120_000 + cases * 200)

t.test('imports end as the model of the specification says', { timeout: 60_000 + cases * 200 }, async (t) => {
  const service = await startService(t, ['control-plane', 'engine'], { LOG_LEVEL: 'error' })
  const startedAt = Date.now()
  const result = await runCampaign({
    service,
    seed,
    cases,
    lanes: 12,
    limitShare: Number(process.env['ROLLCALL_LIMIT_SHARE'] ?? 0),
    ...(onlyList === undefined ? {} : { onlyList: Number(onlyList) }),
    report: (mismatch) => console.error(`${mismatch}\n`),
  })
  const seconds = (Date.now() - startedAt) / 1000
  t.comment(
    `${result.cases} imports in ${seconds.toFixed(1)} s (${(result.cases / seconds).toFixed(1)}/s): ${JSON.stringify(result.results)}`,
  )
  t.equal(result.mismatches, 0, `${result.cases} imports of seed ${seed} end as expected`)
})
