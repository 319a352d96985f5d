import { tap } from '@tapjs/core'
import { describeEndedFile } from './tap-protocol.ts'

/**
 * Loaded into tap's own process where no terminal watches: prints a line as each test file ends. tap's reporters keep
 * the order of the queue, in which a file that takes minutes holds back all that end after it.
 */
const runner = tap({ context: Symbol.for('tap.isRunner') })
let files = 0
let ended = 0
runner.on('subtestAdd', () => {
  files += 1
})
runner.on('spawn', (file) => {
  const pieces: Buffer[] = []
  file.on('process', ({ stdout }) => {
    stdout?.on('data', (piece: Buffer) => pieces.push(piece))
  })
  runner.on('subtestEnd', (subtest) => {
    if (subtest !== file) return
    ended += 1
    const output = Buffer.concat(pieces).toString()
    console.log(
      `${ended}/${files} ${describeEndedFile(file.name, output, { isPassed: file.passing(), ms: file.time })}`,
    )
  })
})
