const maxBytes = 64 * 1024
const maxLines = 1_000
const maxCommands = 100_000

/**
 * The commands that have come while one is at work. They are read on whatever waits, as the end of the connection and
 * ABOR are seen in no other way; so what may wait is bounded. A line like the one before only raises a count: clients
 * send NOOP again and again while a transfer takes hours.
 */
export class WaitingCommands {
  readonly #runs: { line: Buffer; times: number }[] = []
  #bytes = 0
  #commands = 0

  /** False when too many wait. */
  add(line: Buffer): boolean {
    if (this.#commands >= maxCommands) return false
    const last = this.#runs.at(-1)
    if (last?.line.equals(line) === true) last.times += 1
    else if (this.#runs.length >= maxLines || this.#bytes + line.length > maxBytes) return false
    else {
      // A copy: it would keep the whole packet that it came in.
      this.#runs.push({ line: Buffer.from(line), times: 1 })
      this.#bytes += line.length
    }
    this.#commands += 1
    return true
  }

  /** The next one in the order in which they came; null when none waits. */
  take(): Buffer | null {
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
