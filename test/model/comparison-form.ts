/** "Compared without case (NFC, then JavaScript's `toLowerCase`)" (decisions 2.6). */
export const comparisonForm = (text: string): string => text.normalize('NFC').toLowerCase()

export const sameWithoutCase = (a: string, b: string): boolean => comparisonForm(a) === comparisonForm(b)

/** The order of code points, which is that of UTF-8 bytes. */
export const compareByBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** "Length (in code points)" (decisions 2.5). */
export const lengthOf = (text: string): number => Array.from(text).length
