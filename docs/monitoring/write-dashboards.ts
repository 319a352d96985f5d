import { writeFile } from 'node:fs/promises'
import { dashboards } from './dashboards.ts'

/** Makes the files that Grafana reads. */
for (const dashboard of dashboards)
  await writeFile(
    new URL(`grafana/dashboards/${dashboard.uid}.json`, import.meta.url),
    `${JSON.stringify(dashboard, null, 1)}\n`,
  )
