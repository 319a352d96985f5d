/** Changes of a text that no test can see, as the code does the same with them. */
export interface ExplainedMutants {
  file: string
  /** Stands once in the file. */
  text: string
  /** What a mutant makes of the whole text, each. */
  replacements: readonly string[]
  why: string
}
