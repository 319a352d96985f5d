/** The result of a test run, read from the protocol that tap writes (TAP version 14). */
interface RunResult {
  /** Tests that contain no other tests: a file without any counts as one. */
  passed: number
  /** Tests with a failed assertion of their own, or that ended too early. */
  failed: number
  skipped: SkippedTest[]
  failedFiles: string[]
  /** The slowest first. */
  slowestFiles: { file: string; seconds: number }[]
}

export interface SkippedTest {
  name: string
  reason: string
}

const maxSlowestFiles = 10
const endOfTest = /^( *)(not )?ok \d+ - (.*?) # time=([\d.]+)(m?s)/
const skippedTest = /^ *ok \d+ - (.+?) # SKIP(?: (.+))?$/

/** A test's end is written after those of the tests in it, which are indented deeper. */
export function readProtocol(text: string): RunResult {
  const result: RunResult = { passed: 0, failed: 0, skipped: [], failedFiles: [], slowestFiles: [] }
  /** For each depth: whether deeper tests ended since the last test of this depth, and whether one failed. */
  const inner: { hasTests: boolean; hasFailed: boolean }[] = []
  for (const line of text.split('\n')) {
    const skipped = skippedTest.exec(line)
    if (skipped !== null) {
      const [, name = '', reason = 'no reason given'] = skipped
      addSkipped(result, { name, reason })
    }
    const end = endOfTest.exec(line)
    if (end === null) continue
    const [, indent = '', not, name = '', time, unit] = end
    const depth = indent.length / 4
    const { hasTests = false, hasFailed = false } = inner[depth] ?? {}
    const isFailed = not !== undefined
    if (isFailed && !hasFailed) result.failed += 1
    if (!isFailed && !hasTests) result.passed += 1
    inner.length = depth
    if (depth > 0)
      inner[depth - 1] = {
        hasTests: true,
        hasFailed: isFailed || (inner[depth - 1]?.hasFailed ?? false),
      }
    else {
      if (isFailed) result.failedFiles.push(name)
      const seconds = Math.round(Number(time) / (unit === 'ms' ? 1_000 : 1))
      result.slowestFiles.push({ file: name, seconds })
    }
  }
  result.slowestFiles.sort((a, b) => b.seconds - a.seconds).splice(maxSlowestFiles)
  return result
}

function addSkipped({ skipped }: RunResult, test: SkippedTest): void {
  if (!skipped.some(({ name, reason }) => name === test.name && reason === test.reason)) skipped.push(test)
}
