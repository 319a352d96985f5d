import { InvalidArgumentError, Option } from 'commander'

/** An ID that a command can't do without. */
export const requiredId = (flags: string, description: string): Option =>
  new Option(flags, description).argParser(positiveInteger).makeOptionMandatory()

/** For commander, as is `wholeNumber`: throws the error that it tells as wrong usage. */
export function positiveInteger(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a positive integer.')
}

export function wholeNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a non-negative integer.')
}
