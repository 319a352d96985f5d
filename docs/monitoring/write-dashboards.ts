import { writeFile } from 'node:fs/promises'
import { grafanaJson } from './dashboard.ts'
import { dashboards } from './dashboards.ts'

/** Makes the files that Grafana reads. */
for (const dashboard of dashboards)
  await writeFile(
    new URL(`grafana/dashboards/${dashboard.uid}.json`, import.meta.url),
    `${JSON.stringify(grafanaJson(dashboard), null, 1)}\n`,
  )
