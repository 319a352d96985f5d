import { tap, type Base } from '@tapjs/core'
import { describeEndedFile } from './tap-protocol.ts'

/**
 * Loaded into tap's own process where no terminal watches: prints a line as each test file ends. tap's reporters keep
 * the order of the queue, in which a file that takes minutes holds back all that end after it.
 */
const runner = tap({ context: Symbol.for('tap.isRunner') })
const outputs = new Map<Base, Buffer[]>()
let files = 0
let ended = 0
runner.on('subtestAdd', () => {
  files += 1
})
runner.on('spawn', (file) => {
  const pieces: Buffer[] = []
  outputs.set(file, pieces)
  file.on('process', ({ stdout }) => {
    stdout?.on('data', (piece: Buffer) => pieces.push(piece))
  })
})
runner.on('subtestEnd', (file) => {
  const output = Buffer.concat(outputs.get(file) ?? []).toString()
  outputs.delete(file)
  ended += 1
  const line = describeEndedFile(file.name, output, { isPassed: file.passing(), ms: file.time })
  console.log(`${ended}/${files} ${line}`)
})
