import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/**
 * The campaigns at full size, one after the other; docs/campaigns.md says what each is. Arguments choose those whose
 * names have one of them in them. Ends with 1 when one of them failed.
 */
const campaigns: { files: string[]; sizes: Record<string, string> }[] = [
  { files: ['e2e/differential'], sizes: { ROLLCALL_CASES: '2000', ROLLCALL_GRID_ROWS: '1000' } },
  { files: ['unit/records/record-scanner'], sizes: { ROLLCALL_FUZZ_RUNS: '300000' } },
  { files: ['e2e/crash-campaign'], sizes: { ROLLCALL_ROUNDS: '100' } },
  { files: ['e2e/large-files'], sizes: { ROLLCALL_LARGE_ROWS: '10000000', ROLLCALL_ODD_ROWS: '1000000' } },
  { files: ['e2e/bad-days'], sizes: { ROLLCALL_AWAY_SECONDS: '60' } },
  { files: ['e2e/request-races'], sizes: { ROLLCALL_RACE_ROWS: '200000' } },
  { files: ['e2e/reactions'], sizes: { ROLLCALL_ROWS: '200000' } },
  { files: ['e2e/monitoring'], sizes: { ROLLCALL_BAD_DAY: '1' } },
  { files: ['e2e/soak'], sizes: { ROLLCALL_MINUTES: '30' } },
  { files: ['integration/delivery-events', 'unit/delivery/statistics'], sizes: { ROLLCALL_CASES: '1000' } },
]

const run = fileURLToPath(new URL('run.ts', import.meta.url))
const wanted = process.argv.slice(2)
const chosen = campaigns.filter(
  ({ files }) => wanted.length === 0 || wanted.some((name) => files.some((file) => file.includes(name))),
)
const failed = chosen.filter(({ files, sizes }) => {
  console.log(`${files.join(', ')}: ${JSON.stringify(sizes)}`)
  const args = [run, '--jobs=1', '--timeout=7200', ...files.map((file) => `test/${file}.test.ts`)]
  return (
    spawnSync(process.execPath, args, { stdio: 'inherit', env: { ...process.env, ...sizes } }).status !== 0
  )
})
if (chosen.length === 0) console.log(`no campaign has ${wanted.join(' or ')} in its name`)
for (const { files } of failed) console.log(`failed: ${files.join(', ')}`)
process.exit(failed.length === 0 && chosen.length > 0 ? 0 : 1)
