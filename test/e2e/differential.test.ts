import t from 'tap'
import { runCampaign } from '../campaigns/differential.ts'
import { seedOfToday } from '../campaigns/random.ts'
import { startService } from '../helpers/service.ts'

/** The service against the model in test/model. At full size, and a single list of a seed: docs/campaigns.md. */
const number = (name: string, fallback: number) => Number(process.env[name] ?? fallback)
const cases = number('ROLLCALL_CASES', 80)
const seed = number('ROLLCALL_SEED', seedOfToday)
const grids = { rows: number('ROLLCALL_GRID_ROWS', 40), rounds: number('ROLLCALL_GRIDS', 1) }
/** Share of the lists whose organization has a subscriber limit. */
const limitShare = number('ROLLCALL_LIMIT_SHARE', 0.25)
const onlyList = process.env['ROLLCALL_LIST']

/**
 * Conditions that random imports must reach in a run of this size; any seed reaches them several times as often. Without
 * them 27 of 47,000 compared records updated a subscriber; now seven rows in ten are about an existing one. The seed is
 * that of the day: with a random one, of two runs of one commit one might fail.
 */
const minResults: Readonly<Record<string, number>> = {
  added: 50,
  updated: 50,
  failed: 50,
  skipped_overwrite: 10,
  skipped_active: 3,
  skipped_unsubscribed: 2,
  skipped_scomp: 2,
  skipped_bounced: 2,
  skipped_deactivated: 2,
  skipped_duplicate: 50,
  skipped_over_limit: 2,
  deactivated: 10,
  'changes of active ones': 50,
  'changes of unsubscribed ones': 2,
  'changes of bounced ones': 2,
  'changes of scomp ones': 2,
  'changes of deactivated ones': 2,
  'made active': 2,
  'made non-active': 20,
  confirmed: 2,
  'confirmed no more': 1,
  'other times of confirmation': 2,
  'other formats': 2,
  'other emails': 4,
  'values cleared': 2,
  'transcoded files': 5,
  'files of one byte a character': 5,
  'separators of a first line': 2,
  'detected sets': 3,
}

t.setTimeout(320_000 + cases * 1000)

t.test(
  `imports end as the model of the specification says, seed ${seed}`,
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
    const isWhole = cases >= 80 && onlyList === undefined
    const rare = Object.entries(minResults).filter(([what, least]) => (result.results[what] ?? 0) < least)
    if (isWhole) t.same(rare, [], 'rows, subscribers and options met often enough')
  },
)
