import { InvalidArgumentError, Option } from 'commander'

/** A mailing list: an id, or a name. Only a text of digits is an id. */
export const listOption = (flags: string, description: string): Option =>
  new Option(flags, description).argParser(listName)

/** Throws commander's error for wrong usage, as the other parsers do. */
export function listName(text: string): string {
  if (text.trim() !== '' && !/^\s*(0\d*|\d{16,})\s*$/.test(text)) return text
  throw new InvalidArgumentError('It must be a positive integer or a name.')
}

export function positiveInteger(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a positive integer.')
}

export function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a non-negative integer.')
}
