import { InvalidArgumentError, Option } from 'commander'

/** An option with an ID that the command requires. */
export const requiredId = (flags: string, description: string): Option =>
  new Option(flags, description).argParser(positiveInteger).makeOptionMandatory()

/** Parses an option's value. Throws commander's error for wrong usage, as `wholeNumber` does. */
export function positiveInteger(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a positive integer.')
}

export function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a non-negative integer.')
}
