/** The result of a test run, read from the protocol that tap writes (TAP version 14). */
interface RunResult {
  /** Tests that contain no other tests: a file without any counts as one. */
  passed: number
  /** Tests with a failed assertion of their own, or that ended too early. */
  failed: number
  /** The names of the failed tests: those that contain no failed test. */
  failedTests: string[]
  skipped: SkippedTest[]
  failedFiles: string[]
  /** Files that the run began, or was to begin, and of which no end is written. Each counts as failed. */
  filesWithoutEnd: number
  /** The slowest first. */
  slowestFiles: { file: string; seconds: number }[]
}

export interface SkippedTest {
  name: string
  reason: string
}

const maxSlowestFiles = 10
const endOfTest = /^( *)(not )?ok \d+ - (.*?) # time=([\d.]+)(m?s)/
const skippedTest = /^( *)ok \d+ - (.+?) # SKIP(?: (.+))?$/
const planOfFiles = /^1\.\.(\d+)/
const assertion = /^( *)(?:not )?ok \d+/

/** What a test contains. */
interface Contents {
  hasTests: boolean
  hasFailed: boolean
  hasSkipped: boolean
  hasAssertions: boolean
}

/**
 * A test's end is written after those of the tests in it, which are indented deeper. A test of which all that it
 * contains was skipped has not passed.
 */
export function readProtocol(text: string): RunResult {
  const result: RunResult = {
    passed: 0,
    failed: 0,
    failedTests: [],
    skipped: [],
    failedFiles: [],
    filesWithoutEnd: 0,
    slowestFiles: [],
  }
  /** For each depth: what came at it since the last test ended that is less deep. */
  const inner: Contents[] = []
  const contentsAt = (depth: number): Contents =>
    (inner[depth] ??= { hasTests: false, hasFailed: false, hasSkipped: false, hasAssertions: false })
  let plannedFiles = 0
  let endedFiles = 0
  for (const line of text.split('\n')) {
    plannedFiles += Number(planOfFiles.exec(line)?.[1] ?? 0)
    const [, indent] = assertion.exec(line) ?? []
    if (indent === undefined) continue
    const depth = indent.length / 4
    const around = contentsAt(depth)
    const skipped = skippedTest.exec(line)
    if (skipped !== null) {
      const [, , name = '', reason = 'no reason given'] = skipped
      addSkipped(result, { name, reason })
      around.hasSkipped = true
      continue
    }
    const end = endOfTest.exec(line)
    if (end === null) {
      around.hasAssertions = true
      continue
    }
    const [, , not, name = '', time, unit] = end
    const { hasTests, hasFailed, hasSkipped, hasAssertions } = contentsAt(depth + 1)
    const isFailed = not !== undefined
    if (isFailed && !hasFailed) {
      result.failed += 1
      result.failedTests.push(name)
    }
    if (!isFailed && !hasTests && (hasAssertions || !hasSkipped)) result.passed += 1
    inner.length = depth + 1
    around.hasTests = true
    around.hasFailed ||= isFailed
    if (depth === 0) {
      endedFiles += 1
      if (isFailed) result.failedFiles.push(name)
      const seconds = Math.round(Number(time) / (unit === 'ms' ? 1_000 : 1))
      result.slowestFiles.push({ file: name, seconds })
    }
  }
  result.filesWithoutEnd = Math.max(0, plannedFiles - endedFiles)
  result.failed += result.filesWithoutEnd
  result.slowestFiles.sort((a, b) => b.seconds - a.seconds).splice(maxSlowestFiles)
  return result
}

/** What a run shows when a file has ended, from the protocol that the file's process wrote. */
export function describeEndedFile(
  file: string,
  output: string,
  { isPassed, ms }: { isPassed: boolean; ms: number },
): string {
  const end = `${isPassed ? '' : 'not '}ok 1 - ${file} # time=${ms}ms`
  const { passed, failed, failedTests } = readProtocol(`${output.replace(/^/gm, '    ')}\n${end}`)
  const count = failed === 0 ? `${passed} passed` : `${passed} passed, ${failed} failed`
  return [
    `${file}: ${count}, ${(ms / 1_000).toFixed(1)} s`,
    ...failedTests.map((name) => `  failed: ${name}`),
  ].join('\n')
}

function addSkipped({ skipped }: RunResult, test: SkippedTest): void {
  if (!skipped.some(({ name, reason }) => name === test.name && reason === test.reason)) skipped.push(test)
}
