import type { ExplainedMutants } from './explained-mutant.ts'

const rowDecision = 'shared/rows/row-decision.ts'
const rowReader = 'shared/rows/row-reader.ts'
const authorization = 'control-plane/api/authorization.ts'

export const explainedMutants: readonly ExplainedMutants[] = [
  {
    file: rowDecision,
    text: 'i < mappedIndexes.length; i += 1) {\n      const value',
    replacements: ['i <= mappedIndexes.length; i += 1) {\n      const value'],
    why: 'the value behind the last one is undefined, which brings nothing',
  },
  {
    file: rowDecision,
    text: 'i < mappedIndexes.length; i += 1) {\n        const index',
    replacements: ['i <= mappedIndexes.length; i += 1) {\n        const index'],
    why: 'the value behind the last one is undefined, and so is what is kept of it: neither written nor cleared',
  },
  {
    file: rowDecision,
    text: 'value !== null && value !== undefined) values[mappedIndexes[i]!]',
    replacements: ['value !== null && true) values[mappedIndexes[i]!]'],
    why: 'a row has a value or null for each mapped field; undefined is there for the types alone',
  },
  {
    file: rowDecision,
    text: 'value !== null && value !== undefined) values[index]',
    replacements: ['value !== null && true) values[index]'],
    why: 'a row has a value or null for each mapped field; undefined is there for the types alone',
  },
  {
    file: rowDecision,
    text: "decision.result === 'updated' && decision.to",
    replacements: ['true && decision.to'],
    why: 'no decision but an update has a status that it leads to',
  },
  {
    file: rowReader,
    text: 'cells.length > columns.length',
    replacements: ['true', 'cells.length >= columns.length'],
    why: 'saves an empty slice where there are no surplus cells, in which nothing is found',
  },
  {
    file: rowReader,
    text: 'i < columns.length; i += 1',
    replacements: ['i <= columns.length; i += 1'],
    why: 'the column behind the last one is undefined and is passed over',
  },
  {
    file: rowReader,
    text: 'column === null || column === undefined',
    replacements: ['column === null || false'],
    why: 'undefined is there for the types alone',
  },
  {
    file: rowReader,
    text: "dates.isReadIn(text, 'dmy')",
    replacements: ['dates.isReadIn(text, "")'],
    why: 'every order but mdy has the day first',
  },
  {
    file: rowReader,
    text: "email: '',",
    replacements: ['email: "Stryker was here!",'],
    why: 'a row whose email cell is blank is none, so that the beginning value is always written over',
  },
  {
    file: rowReader,
    text: "plan.identity.kind === 'email' ||",
    replacements: ['false ||', 'plan.identity.kind === "" ||'],
    why: 'saves looking at an address again that was valid when the file was split',
  },
  {
    file: authorization,
    text: 'name === undefined ? undefined : params[name]',
    replacements: ['false ? undefined : params[name]'],
    why: 'a path has no parameter of the name undefined',
  },
  {
    file: authorization,
    text: 'return rankOf(subject.role) > rankOf(caller.role)',
    replacements: ['return rankOf(subject.role) >= rankOf(caller.role)'],
    why: 'equal ranks were told apart in the line before',
  },
]
