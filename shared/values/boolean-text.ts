import { comparisonForm } from './identity.ts'

const yes = ['1', 'true', 't', 'yes', 'y', 'on', 'ja', 'oui', 'si', 'sí', 'sì', 'sim', 'да', 'da']
const no = ['0', 'false', 'f', 'no', 'n', 'off', 'nein', 'non', 'não', 'нет', 'ne']
const booleanTexts = new Map([
  ...yes.map((text) => [text, true] as const),
  ...no.map((text) => [text, false] as const),
])

/** Null when the text means neither yes nor no. */
export const booleanFromText = (text: string): boolean | null =>
  booleanTexts.get(text.toLowerCase()) ?? booleanTexts.get(comparisonForm(text)) ?? null
