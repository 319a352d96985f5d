import t from 'tap'
import { describeEndedFile, readProtocol } from '../../../helpers/tap-protocol.ts'

/** How a run of the suite is counted, and what its end shows. */

const protocol = `TAP version 14
1..4
# Subtest: test/a.test.ts
    # Subtest: two assertions
        ok 1 - one
        ok 2 - two
        1..2
    ok 1 - two assertions # time=1.5ms
    ok 2 - with curl # SKIP curl not installed
    # Subtest: outer
        # Subtest: inner
            not ok 1 - wrong
            1..1
        not ok 1 - inner # time=2ms
        # Subtest: other
            ok 1 - right
            1..1
        ok 2 - other # time=2ms
        1..2
    not ok 3 - outer # time=4ms
    1..3
not ok 1 - test/a.test.ts # time=1500ms
# Subtest: test/b.test.ts
    ok 1 - an assertion outside of any test
    1..1
ok 2 - test/b.test.ts # time=2.4s
# Subtest: test/c.test.ts
    # Subtest: one
        ok 1 - right
        1..1
    ok 1 - one # time=1ms
    not ok 2 - timeout!
    1..2
not ok 3 - test/c.test.ts # time=600000ms
ok 4 - test/d.test.ts # time=3ms
`

t.test('tests are counted, not assertions, and a failure once', async (t) => {
  const { passed, failed, failedFiles } = readProtocol(protocol)
  // two assertions, other, b, one, d; inner, and c, of which no test failed.
  t.same({ passed, failed }, { passed: 5, failed: 2 })
  t.same(failedFiles, ['test/a.test.ts', 'test/c.test.ts'])
})

t.test('a file without an end counts as failed', async (t) => {
  const lost = protocol.slice(0, protocol.indexOf('\nnot ok 3'))
  const { passed, failed, filesWithoutEnd } = readProtocol(lost)
  // c has one test that passed, and its end is missing like that of d.
  t.same({ passed, failed, filesWithoutEnd }, { passed: 4, failed: 3, filesWithoutEnd: 2 })
  t.equal(readProtocol(protocol).filesWithoutEnd, 0)
})

t.test('a skipped test is named with its reason, once', async (t) => {
  t.same(readProtocol(protocol + protocol).skipped, [{ name: 'with curl', reason: 'curl not installed' }])
})

t.test('a file or test of which all tests were skipped is not counted as passed', async (t) => {
  const skipped = `    ok 1 - with docker # SKIP no root
    # Subtest: outer
        ok 1 - with lftp # SKIP lftp not installed
        1..1
    ok 2 - outer # time=1ms
    1..2
ok 1 - test/a.test.ts # time=3ms
    ok 1 - with docker # SKIP no root
    1..1
ok 2 - test/b.test.ts # time=3ms
`
  t.match(readProtocol(skipped), { passed: 0, failed: 0 })
  const besides = `    ok 1 - with docker # SKIP no root
    ok 2 - an assertion outside of any test
    1..2
ok 3 - test/c.test.ts # time=3ms
    ok 1 - one # time=1ms
    ok 2 - with docker # SKIP no root
    1..2
ok 4 - test/d.test.ts # time=3ms
`
  t.match(
    readProtocol(skipped + besides),
    { passed: 2, failed: 0 },
    'what ran beside skipped tests is counted',
  )
})

t.test('the slowest files come first', async (t) => {
  t.same(
    readProtocol(protocol).slowestFiles.map(({ file, seconds }) => `${file} ${seconds}`),
    ['test/c.test.ts 600', 'test/a.test.ts 2', 'test/b.test.ts 2', 'test/d.test.ts 0'],
  )
})

t.test('a file that has ended is one line, and one more for each failed test', async (t) => {
  const output = `TAP version 14
# Subtest: right
    ok 1 - one
    1..1
ok 1 - right # time=1.5ms
# Subtest: wrong
    not ok 1 - one
    1..1
not ok 2 - wrong # time=1.5ms
1..2
`
  t.equal(
    describeEndedFile('test/a.test.ts', output, { isPassed: false, ms: 12_340 }),
    'test/a.test.ts: 1 passed, 1 failed, 12.3 s\n  failed: wrong',
  )
  t.equal(
    describeEndedFile('test/a.test.ts', '', { isPassed: false, ms: 600_000 }),
    'test/a.test.ts: 0 passed, 1 failed, 600.0 s\n  failed: test/a.test.ts',
    'a file that ends before its first test',
  )
})
