import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { missing } from '../helpers/missing-programs.ts'
import { answer, startRawWebServer } from '../helpers/raw-web-server.ts'
import {
  bootstrapKey,
  createList,
  descriptionOf,
  importText,
  startService,
  type Json,
  type Service,
} from '../helpers/service.ts'

/**
 * Schemathesis, a fuzzer from PyPI, makes calls by the service's own description: valid ones, invalid ones, and chains
 * of calls that use what earlier ones made. It is installed for the run, so this is a campaign, run by hand.
 */
const version = '4.32.0'
const examples = process.env['ROLLCALL_FUZZ_EXAMPLES']
const seed = process.env['ROLLCALL_SEED'] ?? '7'
const skip = examples === undefined ? 'ROLLCALL_FUZZ_EXAMPLES is not set' : missing('python3')

/** The others judge refusals by a status 4xx; this API refuses with status 200 and `success` false. */
const checks = [
  ...['not_a_server_error', 'status_code_conformance', 'content_type_conformance'],
  ...['response_headers_conformance', 'response_schema_conformance'],
  ...['ignored_auth', 'unsupported_method', 'allow_header_conformance'],
]

t.test(
  'calls made from the description: no 5xx, replies as described, a tenth of them does something',
  { skip },
  async (t) => {
    const service = await startService(t, ['control-plane', 'engine'])
    const web = await startRawWebServer(t, {
      '/people.csv': answer(200, { 'content-length': 20 }, 'email\nann@b.example\n'),
    })
    const folder = path.join(service.dataFolder, 'fuzzing')
    await mkdir(folder)
    const program = await install(folder)
    const made = await makeRecords(service)
    const settings = path.join(folder, 'schemathesis.toml')
    const report = path.join(folder, 'report.json')
    await writeFile(settings, configuration(made))

    const { output } = await run(
      program,
      [
        ...[
          '--config-file',
          settings,
          'run',
          `${service.processes['control-plane']!.ready.http}/openapi.json`,
        ],
        ...['--seed', seed, '--max-examples', examples!, '--checks', checks.join(',')],
        ...['--continue-on-failure', '--no-shrink', '--suppress-health-check', 'all', '--no-color'],
        ...['--request-timeout', '30', '--generation-database', 'none'],
        ...['--report', 'json', '--report-json-path', report],
      ],
      {
        cwd: folder,
        settings: {
          SCHEMATHESIS_HOOKS: fileURLToPath(new URL('../campaigns/fuzz-hooks.py', import.meta.url)),
          FUZZ_KEY: bootstrapKey,
          FUZZ_OWN_KEY_ID: String(made.ownKey),
          FUZZ_OTHER_KEY_ID: String(made.otherKey),
          FUZZ_WEB_SERVER: `http://127.0.0.1:${web.port}/people.csv`,
        },
      },
    )
    const { failures, errors }: Record<'failures' | 'errors', unknown[]> = JSON.parse(
      await readFile(report, 'utf8').catch(() => {
        throw new Error(`Schemathesis wrote no report:\n${output}`)
      }),
    )
    const { calls, done, serverErrors } = await callCounts(service)
    const share = ((100 * done) / calls).toFixed(1)
    console.log(
      `seed ${seed}: ${calls} calls, ${done} of them done (${share} %), ${serverErrors} with status 5xx, ${failures.length} kinds of replies that are not as described`,
    )
    if (failures.length + errors.length > 0) console.log(output)
    t.same(failures, [])
    t.same(errors, [])
    t.equal(serverErrors, 0)
    t.ok(calls > 5_000, 'the fuzzer made its calls')
    t.ok(done >= calls / 10, 'a tenth of the calls did something')
    t.equal((await service.call('GET', '/organizations')).status, 200, 'the key is a key to the end')
  },
)

/** Installs the fuzzer into the folder; resolves to its program. */
async function install(folder: string): Promise<string> {
  const venv = path.join(folder, 'venv')
  const steps: [string, string[]][] = [
    ['python3', ['-m', 'venv', venv]],
    [path.join(venv, 'bin', 'pip'), ['install', '--quiet', `schemathesis==${version}`]],
  ]
  for (const [program, args] of steps) {
    const { code, output } = await run(program, args)
    if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed (${code}):\n${output}`)
  }
  return path.join(venv, 'bin', 'schemathesis')
}

/** Runs a program to its end; resolves to its exit code and what it printed. */
async function run(
  program: string,
  args: string[],
  { cwd, settings }: { cwd?: string; settings?: Record<string, string> } = {},
): Promise<{ code: number | null; output: string }> {
  const child = spawn(program, args, {
    ...(cwd === undefined ? {} : { cwd }),
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill())
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output }
}

/** A record of each kind to name in calls, made by the examples of the description; all that has one is in one list. */
async function makeRecords(service: Service) {
  const list: number = (await createList(service)).id
  const { paths } = await descriptionOf(service.processes['control-plane']!.ready.http!)
  const create = async (template: string, changes: object = {}): Promise<number> => {
    const { examples } = paths[`/svc/api/v2${template}`].post.requestBody.content['application/json']
    const [{ value: example }] = Object.values<Json>(examples) as [Json]
    const [wrapper] = Object.keys(example)
    const body = { [wrapper!]: { ...example[wrapper!], ...changes } }
    return (await service.post(template.replace('{mailing_list_id}', String(list)), body)).id
  }
  const organization = await create('/organizations')
  const emails = Array.from({ length: 20 }, (_, i) => `person${i}@b.example`)
  const imported = await importText(service, list, emails.join('\n'), {
    file_format: { csv_has_headers: false },
  })
  const subscriber = await create('/mailing_lists/{mailing_list_id}/subscribers', {
    email: 'x@b.example',
    custom_fields: {},
  })
  const otherKey = await create('/api_keys')
  const inList = '/mailing_lists/{mailing_list_id}'
  const byPath: Record<string, number[]> = {
    '/organizations/{id}': [organization],
    '/mailing_lists/{id}': [list],
    '/api_keys/{id}': [otherKey],
    '/users/{id}': [await create('/users')],
    [`${inList}/custom_fields/{id}`]: [
      await create(`${inList}/custom_fields`),
      await create(`${inList}/custom_fields`, { name: 'Town' }),
    ],
    [`${inList}/autoresponders/{id}`]: [await create(`${inList}/autoresponders`)],
    '/subscriber_imports/{id}': [imported.id],
  }
  const ids = {
    mailing_list_id: [list],
    organization_id: [1, organization],
    id_or_email: [subscriber, emails[0]!, emails[1]!],
    email: emails.slice(2, 5),
    template_id: [await create(`${inList}/templates`)],
  }
  await create(`${inList}/confirmation_forms`)
  return {
    ids,
    byPath,
    paths: Object.keys(paths),
    ownKey: (await service.get('/api_keys')).find(({ role }: Json) => role === 'system_admin').id,
    otherKey,
  }
}

/** Most calls name a record that is there, and the others any. */
function configuration({ ids, byPath, paths }: Awaited<ReturnType<typeof makeRecords>>): string {
  const binding = (dictionary: string) => `{ dictionary = "${dictionary}", probability = 0.8 }`
  const dictionaries = {
    ...ids,
    ...Object.fromEntries(Object.entries(byPath).map(([template, values]) => [nameOf(template), values])),
  }
  const operations = Object.keys(byPath).flatMap((known) =>
    paths
      .filter((template) =>
        template.replace('/organizations/{organization_id}', '').startsWith(`/svc/api/v2${known}`),
      )
      .map((template) =>
        [
          '[[operations]]',
          `include-path = "${template}"`,
          `parameters = { "path.id" = ${binding(nameOf(known))} }`,
        ].join('\n'),
      ),
  )
  return [
    'auth.basic = { username = "api", password = "${FUZZ_KEY}" }',
    '[dictionaries]',
    ...Object.entries(dictionaries).map(
      ([name, values]) => `${name} = { values = ${JSON.stringify(values)} }`,
    ),
    '[parameters]',
    ...Object.keys(ids).map((name) => `"path.${name}" = ${binding(name)}`),
    ...operations,
  ].join('\n')
}

const nameOf = (template: string): string => template.replaceAll(/\W+/g, '_')

/** The numbers of calls in the control plane's metrics. */
async function callCounts(service: Service) {
  const text = await (await fetch(service.processes['control-plane']!.ready.metrics['control_plane']!)).text()
  const counts = { calls: 0, done: 0, serverErrors: 0 }
  for (const [, labels, count] of text.matchAll(
    /^rollcall_http_request_duration_seconds_count\{(.*)\} (\d+)$/gm,
  )) {
    const status = Number(/status="(\d+)"/.exec(labels!)![1])
    counts.calls += Number(count)
    if (status < 300 && labels!.includes('error_code=""')) counts.done += Number(count)
    if (status >= 500) counts.serverErrors += Number(count)
  }
  return counts
}
