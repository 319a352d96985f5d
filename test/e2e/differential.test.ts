import t from 'tap'
import { runCampaign } from '../campaigns/differential.ts'
import { startService } from '../helpers/service.ts'

/** The service against the model in test/model. At full size, and a single list of a seed: docs/campaigns.md. */
const number = (name: string, fallback: number) => Number(process.env[name] ?? fallback)
const cases = number('ROLLCALL_CASES', 20)
const seed = number('ROLLCALL_SEED', 1)
const grids = { rows: number('ROLLCALL_GRID_ROWS', 40), rounds: number('ROLLCALL_GRIDS', 1) }
/** Share of the lists whose organization has a subscriber limit. */
const limitShare = number('ROLLCALL_LIMIT_SHARE', 0.15)
const onlyList = process.env['ROLLCALL_LIST']

t.setTimeout(180_000 + cases * 1000)

t.test(
  'imports end as the model of the specification says',
  { timeout: 300_000 + cases * 1000 },
  async (t) => {
    const service = await startService(t, ['control-plane', 'engine'], { LOG_LEVEL: 'error' })
    const startedAt = Date.now()
    const result = await runCampaign({
      service,
      seed,
      cases,
      grids,
      lanes: 12,
      limitShare,
      ...(onlyList === undefined ? {} : { onlyList: Number(onlyList) }),
      report: (mismatch) => console.error(`${mismatch}\n`),
    })
    const seconds = (Date.now() - startedAt) / 1000
    t.comment(
      `${result.imports} imports in ${seconds.toFixed(1)} s (${(result.imports / seconds).toFixed(1)}/s): ${JSON.stringify(result.results)}`,
    )
    t.equal(result.mismatches, 0, `${result.imports} imports of seed ${seed} end as expected`)
  },
)
