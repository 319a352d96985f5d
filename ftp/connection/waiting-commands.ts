const maxBytes = 64 * 1024
const maxLines = 1_000
const maxCommands = 100_000

/**
 * A bounded queue of the commands that arrive while another one runs. The connection is read all the time, as its end
 * and ABOR can't be noticed otherwise. A line equal to the one before only raises a count, since clients repeat NOOP
 * during transfers of hours.
 */
export class WaitingCommands {
  readonly #runs: { line: Buffer; times: number }[] = []
  #bytes = 0
  #commands = 0

  /** False when the queue is full. */
  push(line: Buffer): boolean {
    if (this.#commands >= maxCommands) return false
    const last = this.#runs.at(-1)
    if (last?.line.equals(line) === true) last.times += 1
    else if (this.#runs.length >= maxLines || this.#bytes + line.length > maxBytes) return false
    else {
      // Copied, because the line would keep the memory of its whole packet.
      this.#runs.push({ line: Buffer.from(line), times: 1 })
      this.#bytes += line.length
    }
    this.#commands += 1
    return true
  }

  /** The oldest command; null when the queue is empty. */
  shift(): Buffer | null {
    const first = this.#runs[0]
    if (first === undefined) return null
    first.times -= 1
    this.#commands -= 1
    if (first.times === 0) {
      this.#runs.shift()
      this.#bytes -= first.line.length
    }
    return first.line
  }
}
