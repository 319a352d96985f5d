/** Mutations of a text that no test can notice, as the code behaves the same with them. */
export interface ExplainedMutants {
  file: string
  /** Stands once in the file. */
  text: string
  /** The texts that mutants replace the whole text with. */
  replacements: readonly string[]
  why: string
}
