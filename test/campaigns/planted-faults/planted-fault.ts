/** A realistic mistake: a text of a file that stands there once, and what it is replaced with. */
export interface PlantedFault {
  /** The guarantee that the fault breaks. */
  name: string
  file: string
  text: string
  replacement: string
  /** The test files that must fail, and settings that choose what they run. */
  tests: readonly TestRun[]
}

export interface TestRun {
  files: readonly string[]
  settings?: Readonly<Record<string, string>>
}
