import { normalizeText } from '../values/normalized-text.ts'

/** Longer headers are cut: a name of a column is never longer. */
export const maxNameUnits = 200

/** Letters that Unicode doesn't decompose, as people write them without accents. */
const asciiLetters: Record<string, string> = {
  ß: 'ss',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  ı: 'i',
  æ: 'ae',
  œ: 'oe',
}

/** A name in lower case, without accents, blanks and punctuation. */
export function plainName(text: string): string {
  return normalizeText(text.slice(0, maxNameUnits), 'NFKD')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
    .replaceAll(/[ßøłđðıæœ]/g, (letter) => asciiLetters[letter]!)
}

/** The words of a list that is written as text. */
export const words = (text: string): readonly string[] => text.trim().split(/\s+/)
