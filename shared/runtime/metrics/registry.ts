import { readFileSync } from 'node:fs'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

/** What every process tells of itself: memory, processor, garbage collection, delay of the event loop, its version. */
export function createRegistry(): Registry {
  const register = new Registry()
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: 10 })
  // Gauges that are named as counters are; nodejs_active_resources says the same by type.
  for (const name of [
    'nodejs_active_handles_total',
    'nodejs_active_requests_total',
    'nodejs_active_resources_total',
  ])
    register.removeSingleMetric(name)
  new Gauge({
    name: 'rollcall_build_info',
    help: 'Always 1; the labels say which version runs on which Node.js',
    labelNames: ['version', 'node'],
    registers: [register],
  }).set({ version: versionOfPackage(), node: process.versions.node }, 1)
  return register
}

function versionOfPackage(): string {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
