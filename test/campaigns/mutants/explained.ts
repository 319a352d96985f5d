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
  {
    file: 'engine/splitting/file-warnings.ts',
    text: "const named = names.filter((name, i) => name !== null && plain(cells[i] ?? '') === plain(name))",
    replacements: [
      'const named = names.filter((name, i) => name !== null && plain(cells[i] ?? "Stryker was here!") === plain(name))',
    ],
    why: 'a cell that is not there is blank, and a name or word is neither that nor what stands in for it',
  },
  {
    file: 'engine/splitting/file-warnings.ts',
    text: "const email = cells[names.indexOf('email')] ?? ''",
    replacements: ['const email = cells[names.indexOf(\'email\')] ?? "Stryker was here!"'],
    why: 'a cell that is not there is blank, and a name or word is neither that nor what stands in for it',
  },
  {
    file: 'control-plane/resources/delivery-events/message-state.ts',
    text: "case 'skipped':",
    replacements: ['case "":'],
    why: 'the last case does nothing, as no case does',
  },
  {
    file: 'control-plane/resources/delivery-events/message-state.ts',
    text: 'if (message.sent_day === null || message.format === null) return counts',
    replacements: [
      'if (message.sent_day === null && message.format === null) return counts',
      'if (false || message.format === null) return counts',
      'if (message.sent_day === null || false) return counts',
    ],
    why: 'day and format of a message are noted together',
  },
  {
    file: 'shared/values/field-value.ts',
    text: 'if (text.length <= most && text.length >= least * 2) return text',
    replacements: [
      'if (false) return text',
      'if (text.length < most && text.length >= least * 2) return text',
      'if (text.length <= most && text.length > least * 2) return text',
    ],
    why: 'saves counting the characters of texts that are long or short enough in any case',
  },
  {
    file: 'shared/values/field-value.ts',
    text: "return (/^\\d\\d-\\d\\d$/.test(text) ? parseDayOfYear(text, 'mdy') : null) ?? fromText(text)",
    replacements: [
      "return (/\\d\\d-\\d\\d$/.test(text) ? parseDayOfYear(text, 'mdy') : null) ?? fromText(text)",
    ],
    why: 'a longer text that ends so is no day, or has its year first and is read the same in any order',
  },
  {
    file: 'shared/values/field-value.ts',
    text: 'for (let at = 0; at <= form.length; at += 1) {',
    replacements: ['for (let at = 0; at < form.length; at += 1) {'],
    why: 'what is behind the end is a blank part, which chooses nothing',
  },
  {
    file: 'shared/values/field-value.ts',
    text: 'if (!firstUnits.has(text.charCodeAt(begin))) return null',
    replacements: ['if (false) return null'],
    why: 'saves the search where no name begins so',
  },
  {
    file: 'shared/values/field-value.ts',
    text: 'while (length < a.length && a[length] === b[length]) length += 1',
    replacements: ['while (length <= a.length && a[length] === b[length]) length += 1'],
    why: 'counts one more where both texts end, and no name is that long',
  },
]
