/** A realistic mistake: a text of a file that stands there once, and what it is replaced with. */
export interface PlantedFault {
  /** What no longer holds. */
  name: string
  file: string
  text: string
  replacement: string
  /** The tests that belong to the place: files, and settings that choose among what they do. */
  tests: readonly TestRun[]
}

export interface TestRun {
  files: readonly string[]
  settings?: Readonly<Record<string, string>>
}
