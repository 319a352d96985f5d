import type { Report } from './report.ts'

export function htmlPage(report: Report): string {
  return JSON.stringify(report)
}
