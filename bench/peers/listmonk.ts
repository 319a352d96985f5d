import { execFile, spawn } from 'node:child_process'
import { openAsBlob } from 'node:fs'
import { access, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { programEnvironment } from '../../shared/runtime/config.ts'
import { wrongDocuments } from '../contenders/check-import.ts'
import { sampledRows, wrongSample, type Sample } from '../datasets/sample.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcess } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { cellsOf } from './flat-document.ts'
import { findPostgres, freePort, postgresSettings, postgresUser, startPostgres } from './postgres-server.ts'

/**
 * listmonk, which imports subscribers into PostgreSQL: another database, so its row says what its users get on this
 * machine, not what it does with a document. Its file has the columns that it knows: email, name, and everything else as
 * JSON, which it doesn't look into. It checks addresses, lower-cases them, and doesn't overwrite; it logs what failed.
 */
export async function listmonkPeer(
  context: BenchContext,
  work: { dataset: SubscriberFile; file: string },
): Promise<Contender[]> {
  const folder = await findListmonk()
  const postgres = await findPostgres()
  if (folder === null || postgres === null) {
    context.say(
      folder === null
        ? 'without listmonk: name a folder that holds it and its sources with LISTMONK_FOLDER, or build it with bench/peers/build-listmonk.sh'
        : 'without listmonk: there is no PostgreSQL (initdb, pg_ctl, psql) on the PATH',
    )
    return []
  }
  let round = 0
  return [
    {
      name: 'listmonk',
      version: await versionsOf(folder, postgres),
      settings: postgresSettings,
      note: 'another database; one import at a time, no custom field is checked, nothing goes on after a crash',
      run: async () => {
        round += 1
        const scratch = path.join(context.folder, `listmonk-${round}`)
        await mkdir(scratch)
        const server = await startPostgres(postgres)
        try {
          return await importOnce(context, work, { folder, scratch, server })
        } finally {
          await server.remove()
        }
      },
    },
  ]
}

const built = fileURLToPath(new URL('../../node_modules/.cache/rollcall/listmonk', import.meta.url))

async function findListmonk(): Promise<string | null> {
  const named = process.env['LISTMONK_FOLDER'] ?? ''
  const folder = named === '' ? built : named
  const isThere = await access(path.join(folder, 'listmonk')).then(
    () => true,
    () => false,
  )
  if (!isThere && named !== '') throw new Error(`LISTMONK_FOLDER is ${named}, where there is no listmonk`)
  return isThere ? folder : null
}

/** "listmonk 1a2b3c4, PostgreSQL 15.9". */
async function versionsOf(folder: string, postgres: string): Promise<string> {
  const execute = promisify(execFile)
  const own = await execute(path.join(folder, 'listmonk'), ['--version'], { cwd: folder })
  const server = await execute(path.join(postgres, 'psql'), ['--version'])
  return `listmonk ${/\S+/.exec(own.stdout)?.[0] ?? ''}, PostgreSQL ${/[\d.]+/.exec(server.stdout)?.[0] ?? ''}`
}

interface Place {
  folder: string
  scratch: string
  server: Awaited<ReturnType<typeof startPostgres>>
}

async function importOnce(
  context: BenchContext,
  { dataset, file }: { dataset: SubscriberFile; file: string },
  place: Place,
): ReturnType<Contender['run']> {
  const { server } = place
  const listmonk = await startListmonk(place)
  try {
    const { id } = await listmonk.post<{ id: number }>('/lists', {
      name: 'bench',
      type: 'private',
      optin: 'single',
    })
    let imported = 0
    const measured = await context.measure({
      processes: [listmonk.process, server.process],
      rows: dataset.rows,
      progress: () => imported,
      do: async () => {
        await listmonk.upload(file, id)
        for (;;) {
          const stats = await listmonk.get<{ status: string; imported: number }>('/import/subscribers')
          imported = stats.imported
          if (stats.status === 'finished') return
          if (stats.status === 'failed') throw new Error('listmonk failed to import the file')
          await sleep(100)
        }
      },
    })
    const [sums] = await server.query(
      `select count(*), sum((attribs->>'points')::bigint) from subscribers join subscriber_lists on id = subscriber_id where list_id = ${id}`,
    )
    const [count, points] = sums!.split('|').map(Number) as [number, number]
    const expected = expectedSample(dataset)
    const wrong =
      wrongDocuments({ count, points }, firstWins(dataset)) ??
      wrongSample(await storedSample(server, [...expected.keys()]), expected)
    if (wrong !== null) context.say(`listmonk: ${wrong}`)
    const cpu = (name: string) => (measured.processes[name]!.cpuSeconds / dataset.rows) * 1e6
    return {
      ...measured,
      clientMicroseconds: cpu('listmonk'),
      serverMicroseconds: cpu('postgres'),
      isRight: wrong === null,
    }
  } finally {
    await listmonk.stop()
  }
}

/** A bad date is no reason for it to leave a row out. */
function firstWins(dataset: SubscriberFile): Documents {
  const documents = { count: 0, points: 0 }
  for (let row = 0; row < dataset.rows; row += 1) {
    const kind = dataset.kindOf(row)
    if (kind === 'bad_email' || kind === 'duplicate') continue
    documents.count += 1
    documents.points += dataset.pointsOf(row)
  }
  return documents
}

/** The columns of its file that make up the attributes, as texts but for `points`. */
export function attributesOf(dataset: SubscriberFile, row: number) {
  const [email, firstName, lastName, ...values] = cellsOf(dataset.line(row).slice(0, -1))
  const names = dataset.columns.slice(3)
  const attributes = Object.fromEntries(
    names.map((name, i) => [name, name === 'points' ? Number(values[i]) : values[i]]),
  )
  return { email: email!, name: `${firstName} ${lastName}`, attributes }
}

function expectedSample(dataset: SubscriberFile): Sample {
  const sample: Sample = new Map()
  for (const sampled of sampledRows(dataset.rows)) {
    const row = dataset.kindOf(sampled) === 'duplicate' ? dataset.originalOf(sampled)! : sampled
    const { email, ...subscriber } = attributesOf(dataset, row)
    sample.set(email, dataset.kindOf(row) === 'bad_email' ? null : subscriber)
  }
  return sample
}

/** The addresses are made up: none holds a quote. */
async function storedSample({ query }: Place['server'], emails: string[]): Promise<Sample> {
  const wanted = emails.map((email) => `'${email}'`).join(',')
  const lines = await query(
    `select json_build_object('email', email, 'name', name, 'attributes', attribs) from subscribers where email in (${wanted})`,
  )
  const found = lines.map((line) => JSON.parse(line) as { email: string; name: string; attributes: unknown })
  return new Map(found.map(({ email, ...subscriber }) => [email, subscriber]))
}

const startMs = 30_000

async function startListmonk({ folder, scratch, server }: Place) {
  const port = await freePort()
  const config = path.join(scratch, 'config.toml')
  await writeFile(
    config,
    `[app]\naddress = "127.0.0.1:${port}"\n[db]\nhost = "127.0.0.1"\nport = ${server.port}\nuser = "${postgresUser}"\npassword = ""\ndatabase = "postgres"\nssl_mode = "disable"\nmax_open = 25\nmax_idle = 25\nmax_lifetime = "300s"\n`,
  )
  const program = path.join(folder, 'listmonk')
  // Its temporary files lie in the scratch folder too.
  const settings = { TMPDIR: scratch }
  const token = await install(program, folder, config, settings)
  const env = programEnvironment({ settings })
  const child = spawn(program, ['--config', config], { cwd: folder, env, stdio: 'ignore' })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
  }
  void ended.then(endOnInterrupt(stop))
  const base = `http://127.0.0.1:${port}/api`
  const headers = { authorization: `token bench:${token}` }
  const call = async <T>(
    path: string,
    init: Omit<RequestInit, 'headers'> = {},
    more: Record<string, string> = {},
  ): Promise<T> => {
    const response = await fetch(`${base}${path}`, { ...init, headers: { ...headers, ...more } })
    if (!response.ok) throw new Error(`listmonk answered ${response.status}: ${await response.text()}`)
    return ((await response.json()) as { data: T }).data
  }
  const startedAt = performance.now()
  for (;;) {
    const answers = await call('/lists').then(
      () => true,
      () => false,
    )
    if (answers) break
    if (child.exitCode !== null || performance.now() - startedAt > startMs) {
      await stop()
      throw new Error(`listmonk in ${folder} didn't start`)
    }
    await sleep(100)
  }
  return {
    process: await childProcess('listmonk', () => child.pid),
    get: <T>(path: string) => call<T>(path),
    post: <T>(path: string, body: unknown) =>
      call<T>(path, { method: 'POST', body: JSON.stringify(body) }, { 'content-type': 'application/json' }),
    upload: async (file: string, list: number) => {
      const form = new FormData()
      const options = { mode: 'subscribe', delim: ',', lists: [list], subscription_status: 'confirmed' }
      form.set('params', JSON.stringify(options))
      form.set('file', await openAsBlob(file), 'rows.csv')
      await call('/import/subscribers', { method: 'POST', body: form })
    },
    stop,
  }
}

/** Makes its tables and a user of its API; the user's token, which it prints. */
async function install(program: string, folder: string, config: string, settings: Record<string, string>) {
  const child = spawn(program, ['--config', config, '--install', '--yes'], {
    cwd: folder,
    env: programEnvironment({
      settings: {
        ...settings,
        LISTMONK_ADMIN_USER: 'benchadmin',
        LISTMONK_ADMIN_PASSWORD: 'benchmark',
        LISTMONK_ADMIN_API_USER: 'bench',
      },
    }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (output += piece.toString()))
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', () => resolve())
  })
  const forget = endOnInterrupt(() => {
    child.kill()
    return ended
  })
  await ended.finally(forget)
  const token = /LISTMONK_ADMIN_API_TOKEN="([^"]+)"/.exec(output)?.[1]
  if (token === undefined) throw new Error(`listmonk couldn't set itself up: ${output.slice(-500)}`)
  return token
}
