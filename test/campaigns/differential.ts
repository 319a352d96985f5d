import { setImmediate } from 'node:timers/promises'
import type { FieldDefinition } from '../../shared/contract/schemas/custom-field.ts'
import type { Separator } from '../../shared/contract/schemas/import.ts'
import type { Json, Service } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'
import { expectedEnd } from '../model/import-model.ts'
import type { ExpectedEnd, ExpectedLogFormat } from '../model/subscriber-table.ts'
import { awkwardFiles } from './awkward-files.ts'
import { awkwardSets } from './awkward-sets.ts'
import {
  createList,
  createOrganizations,
  identitiesIn,
  insertSubscribers,
  setLimit,
} from './campaign-list.ts'
import type { CampaignList, ListContext } from './campaign-list.ts'
import { changesOf, differencesOf } from './differences.ts'
import { gridColumns, gridFields, madeGrid } from './made-grid.ts'
import { madeImport, type MadeImport } from './made-import.ts'
import { madeList, timeZones, type MadeList } from './made-list.ts'
import { ImportEnds, observe, tableOf } from './observed-end.ts'
import { Random } from './random.ts'

/**
 * The differential campaign: the same lists, files and options through the service and through the model in
 * test/model, then their ends side by side. List number n of a seed is always the same; its imports follow each other.
 */
interface Campaign {
  service: Service
  seed: number
  /** Imports of chance in all. */
  cases: number
  /** Rows of each grid, and how many grids of each column; see made-grid.ts. */
  grids: { rows: number; rounds: number }
  /** Lists at once. */
  lanes: number
  limitShare: number
  /** Runs only this list of random imports. */
  onlyList?: number
  report: (mismatch: string) => void
}

interface CampaignResult {
  /** All imports. */
  imports: number
  /** Random imports. */
  cases: number
  mismatches: number
  /** Counts over the random imports: records by outcome, imports by their end, and changes of subscribers. */
  results: Record<string, number>
}

type Context = Campaign & ListContext & { ends: ImportEnds; result: CampaignResult }

const maxImportsOfList = 6

export async function runCampaign(campaign: Campaign): Promise<CampaignResult> {
  const around: Context = {
    ...campaign,
    organizations: await createOrganizations(campaign.service),
    ends: new ImportEnds(campaign.service),
    result: { imports: 0, cases: 0, mismatches: 0, results: {} },
  }
  if (campaign.onlyList !== undefined)
    await runList(campaign.onlyList, { ...around, cases: maxImportsOfList })
  else {
    const apart: Context = { ...around, result: { ...around.result, results: {} } }
    await runInLanes([...gridsOf(apart), ...awkwardOnes(apart), ...listsOf(around)], campaign.lanes)
    around.result.imports += apart.result.imports
    around.result.mismatches += apart.result.mismatches
  }
  return around.result
}

async function runInLanes(work: (() => Promise<void>)[], lanes: number): Promise<void> {
  const waiting = work.values()
  const lane = async () => {
    for (const run of waiting) await run()
  }
  await Promise.all(Array.from({ length: lanes }, lane))
}

const gridsOf = (around: Context) =>
  Array.from({ length: around.grids.rounds }, (_, round) =>
    gridColumns.map((column) => () => runGrid(column, round, around)),
  ).flat()

const awkwardOnes = (around: Context) =>
  [...awkwardFiles(), ...awkwardSets()].map((file, number) => async () => {
    const random = new Random(around.seed * 7919 + 100_000 + number)
    const hasLimit = random.chance(around.limitShare)
    const list = await createList({ ...plainList, fields: file.fields, hasLimit }, file.name, around)
    await compare(file.name, file.made, list, around, random)
  })

/** More lists than needed, as each has one import at least. */
const listsOf = (around: Context) =>
  Array.from({ length: around.cases }, (_, number) => async () => {
    if (around.result.cases < around.cases) await runList(number, around)
  })

const plainList = {
  timeZone: 'UTC',
  hasFormat: false,
  hasConfirmed: false,
  hasLimit: false,
  primaryKey: null,
}

async function runGrid(column: string, round: number, around: Context): Promise<void> {
  const name = `grid ${column} ${round}`
  const random = new Random(around.seed * 7919 + round * 100 + gridColumns.indexOf(column))
  const made: MadeList = {
    ...plainList,
    timeZone: random.oneOf(timeZones),
    hasConfirmed: true,
    fields: gridFields(random),
  }
  const list = await createList(made, name, around)
  await compare(name, madeGrid(column, made, around.grids.rows, random), list, around, random)
}

async function runList(number: number, around: Context): Promise<void> {
  const random = new Random(around.seed * 1_000_003 + number)
  const made = madeList(around.seed + number, around.limitShare, random)
  const list = await createList(made, `list ${number}`, around)
  const imports = random.between(1, maxImportsOfList)
  for (
    let importNumber = 0;
    importNumber < imports && around.result.cases < around.cases;
    importNumber += 1
  ) {
    if (importNumber === 0 || random.chance(0.2)) await insertSubscribers(list, around.service, random)
    const own = await identitiesIn(list, around.service)
    around.result.cases += 1
    const isSame = await compare(
      `list ${number}, import ${importNumber}`,
      madeImport({ ...made, own }, random),
      list,
      around,
      random,
    )
    // All further imports would differ only because of this one.
    if (!isSame) return
  }
}

async function compare(
  where: string,
  made: MadeImport,
  list: CampaignList,
  around: Context,
  random: Random,
): Promise<boolean> {
  around.result.imports += 1
  const differences = await compareEnds(made, list, around, random)
  if (differences.length === 0) return true
  around.result.mismatches += 1
  around.report(mismatchText(`seed ${around.seed}, ${where}`, list, made, differences))
  return false
}

async function compareEnds(
  made: MadeImport,
  list: CampaignList,
  around: Context,
  random: Random,
): Promise<string[]> {
  const { service, ends, result } = around
  const documents = await service.collections.subscribers.find({ mailing_list_id: list.id }).toArray()
  const existing = tableOf(documents, list.model.fields)
  const quota = list.made.hasLimit ? await setLimit(list, service, random) : null
  // The model computes for long; this pause lets the other lanes' connections be served.
  await setImmediate()
  const body = await creationBody(made, list, service)
  const proposedSeparator = await separatorByInspection(body, made, list, service)
  const expected = expectedEnd({ ...made, proposedSeparator, list: list.model, existing, quota })
  const from = new Date()
  const path = `/mailing_lists/${list.id}/subscriber_imports`
  const { body: created } = await service.call('POST', path, body)
  if (created.success !== true) return [`the creation was refused: ${created.error_message}`]
  await ends.of(created.data.id)
  const to = new Date()
  const observed = await observe(service, created.data.id, {
    listId: list.id,
    fields: list.model.fields,
    format: {
      ...made.options.file_format,
      csv_field_escape: made.options.file_format.csv_field_escape ?? null,
      ...(expected.logFormat ?? noLog),
    },
    hasPrimaryKey: list.model.primaryKey !== null,
  })
  const subscribers: Record<string, number> = observed.view.stats.subscribers
  const changes = changesOf(existing, observed.table)
  for (const [kind, count] of Object.entries({ ...subscribers, ...changes, ...contentsOf(expected) }))
    result.results[kind] = (result.results[kind] ?? 0) + count
  return differencesOf(expected, observed, { existing, from, to })
}

let uploads = 0

/** What the import's file and its end are, for the counts of a campaign. */
const contentsOf = ({ state, logFormat, detectedSet }: ExpectedEnd): Record<string, number> => ({
  [state]: 1,
  ...(logFormat?.hasMark === true ? { 'transcoded files': 1 } : {}),
  ...(logFormat !== null && logFormat.set !== 'utf-8' ? { 'files of one byte a character': 1 } : {}),
  ...(logFormat?.hasSeparatorLine === true ? { 'separators of a first line': 1 } : {}),
  ...(detectedSet !== null ? { 'detected sets': 1 } : {}),
})

const noLog: ExpectedLogFormat = {
  set: 'utf-8',
  hasMark: false,
  separator: ',',
  hasSeparatorLine: false,
  skippedText: '',
}

async function creationBody(made: MadeImport, list: CampaignList, service: Service): Promise<Json> {
  let source: Json
  if (made.isInline) source = { type: 'json', content: Buffer.from(made.bytes).toString('utf8') }
  else {
    const filename = `file-${(uploads += 1)}.csv`
    await storedUploads(service, list.organizationId).put(filename, made.bytes)
    source = { type: 'upload_directory', filename }
  }
  const {
    default_separator: isDefault,
    file_format: format,
    given_defaults: given,
    ...options
  } = made.options
  return {
    subscriber_import: {
      ...options,
      subscriber_defaults: Object.fromEntries(given.map((name) => [name, options.subscriber_defaults[name]])),
      file_format: {
        ...format,
        character_set: made.spelledSet ?? format.character_set,
        ...(isDefault === true ? { csv_field_separator: undefined } : {}),
      },
      column_mapping: made.spelledMapping ?? made.options.column_mapping,
      file_source: source,
    },
  }
}

/** What `inspect` proposes where the separator is `auto`; undefined where it has nothing to propose. */
async function separatorByInspection(
  body: Json,
  made: MadeImport,
  list: CampaignList,
  service: Service,
): Promise<Separator | undefined> {
  if (made.options.file_format.csv_field_separator !== 'auto') return undefined
  const path = `/mailing_lists/${list.id}/subscriber_imports/inspect`
  const { body: answer } = await service.call('POST', path, body)
  return answer.success === true ? answer.data.csv_field_separator : undefined
}

function mismatchText(where: string, list: CampaignList, made: MadeImport, differences: string[]): string {
  const { options } = made
  const file = Buffer.from(made.bytes).toString('latin1')
  const isText = made.isInline
  return [
    `${where} (${made.isInline ? 'inline' : 'uploaded'})`,
    ...differences.slice(0, 6).map((difference) => `  ${difference}`),
    ...(differences.length > 6 ? [`  and ${differences.length - 6} more`] : []),
    `  zone ${list.model.timeZone}, key ${list.made.primaryKey}, fields ${JSON.stringify(list.made.fields.map(fieldText))}`,
    `  options ${JSON.stringify(options)}`,
    `  file ${JSON.stringify((isText ? Buffer.from(made.bytes).toString('utf8') : file).slice(0, 6000))}`,
  ].join('\n')
}

function fieldText(field: MadeList['fields'][number]): Partial<FieldDefinition> {
  return Object.fromEntries(
    Object.entries(field).filter(
      ([, value]) => value !== null && value !== false && !(Array.isArray(value) && value.length === 0),
    ),
  )
}
