/** Mutations of a text that no test can notice, as the code behaves the same with them. */
export interface ExplainedMutants {
  file: string
  /** Stands once in the file. */
  text: string
  /** What a mutant makes of the whole text, each. */
  replacements: readonly string[]
  why: string
}
