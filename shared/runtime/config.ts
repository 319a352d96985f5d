import { existsSync } from 'node:fs'
import { isIPv4, isIPv6 } from 'node:net'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { StartError } from '../contract/errors.ts'

/**
 * All settings of all processes, each with its default, its unit and a sentence. No other file reads the environment.
 * The README's table is generated from this schema (`settingsTable`).
 */

const optionalText = () => z.string().optional()

function bareInteger({ min, max }: { min: number; max: number }) {
  return z
    .string()
    .refine((text) => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max, {
      error: `must be an integer from ${min} to ${max}`,
    })
    .transform(Number)
}

const integer = (bounds: { min: number; max: number; default: number }) =>
  bareInteger(bounds).default(bounds.default)

const yesNo = (fallback: boolean) =>
  z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .transform((text) => text === 'true')
    .default(fallback)

const port = (fallback: number) => integer({ min: 0, max: 65535, default: fallback })

/** A URL without credentials. */
const bareUrl = (protocol: RegExp, error: string) =>
  z.url({ protocol, error }).refine((text) => !text.includes('@'), { error })

const commaList = () =>
  z
    .string()
    .transform((text) =>
      text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== ''),
    )
    .default([])

/** Whether the text is an IP address or a CIDR; "300.1.1.1/99" is neither. */
function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const maxPrefix = isIPv4(address) ? 32 : isIPv6(address) && !address.includes('%') ? 128 : -1
  return rest.length === 0 && maxPrefix > 0 && (prefix === undefined || isPrefix(prefix, maxPrefix))
}

const isPrefix = (text: string, max: number): boolean => /^\d{1,3}$/.test(text) && Number(text) <= max

/** The last label must not be a number, so that a mistyped address isn't accepted as a name. */
const hostName = /^(?!.*(?:^|\.)(?:\d+|0x[\da-f]*)\.?$)[\w-]+(?:\.[\w-]+)*\.?$/i

const settingsSchema = z.object({
  MONGODB_URI: z
    .string()
    .regex(/^mongodb(\+srv)?:\/\/\S+$/, { error: 'must begin with mongodb:// or mongodb+srv://' })
    .optional()
    .meta({
      isSecret: true,
      description:
        'the MongoDB replica set or sharded cluster; without it `npm start` starts an embedded server under `DATA_DIR`, and other processes end',
    }),
  MONGODB_DATABASE: z
    .string()
    .regex(/^[\w-]{1,63}$/, { error: 'must be 1 to 63 letters, digits, "-" or "_"' })
    .default('rollcall')
    .describe('name of the database'),
  EMBEDDED_MONGODB: yesNo(true).describe(
    'whether `npm start` starts an embedded server without `MONGODB_URI`; `false` in the image, which has none',
  ),
  MONGOD_BINARY: optionalText().describe(
    'path of the `mongod` for the embedded server, which is tried before any other',
  ),
  MONGOD_CACHE_DIR: optionalText().describe(
    "where a downloaded `mongod` is kept, by default `rollcall/mongod` in the user's cache folder",
  ),
  MONGOD_CACHE_MB: integer({ min: 256, max: 1_000_000, default: 1024 }).describe(
    "the embedded server's cache, in MiB",
  ),
  DATA_DIR: z
    .string()
    .default('./data')
    .transform((folder) => path.resolve(folder))
    .describe('uploads, staging and the embedded database; several engines share it (NFS or the like)'),
  STAGING: z
    .enum(['disk', 'gridfs'], { error: 'must be disk or gridfs' })
    .default('disk')
    .describe(
      'where uploads and staged files lie: `disk` (under `DATA_DIR`) or `gridfs` (in the database), for processes on different machines without a shared folder',
    ),
  SECRETS_KEY_FILE: optionalText().describe(
    'file with the key that encrypts passwords in URLs and secrets of callbacks in the database (docs/operating.md), the same for all control planes and engines; by default `secrets.key` in `DATA_DIR`, made at the first start, except with both `STAGING=gridfs` and `MONGODB_URI`',
  ),
  UPLOAD_MAX_FILES: integer({ min: 0, max: 10_000_000, default: 10_000 }).describe(
    "maximum number of files in an organization's upload directory, unfinished ones included; 0 is unlimited",
  ),
  UPLOAD_MAX_MB: integer({ min: 0, max: 1_000_000_000, default: 10_240 }).describe(
    "an organization's quota, in MB: its upload directory with unfinished uploads, what its unfinished imports have staged, and the failed rows of its ended ones until their logs are purged; 0 is unlimited",
  ),
  IMPORTS_MAX_UNFINISHED: integer({ min: 1, max: 10_000, default: 2_000 }).describe(
    'maximum number of unfinished imports of an organization, where one that has ended counts until an engine has finalized it; an organization that has that many can create no further one',
  ),
  DISK_RESERVE_MB: integer({ min: 0, max: 1_000_000_000, default: 512 }).describe(
    'space on the disk of `DATA_DIR`, in MB, that stays free: with less, imports wait, inline content and uploads are refused, and `/readyz` says so; 0 is none',
  ),
  HTTP_HOST: z.string().default('127.0.0.1').describe('address that the control plane listens on'),
  HTTP_PORT: port(8080).describe(
    'port of the control plane; 0 is a free port, here and in every other port setting',
  ),
  PUBLIC_URL: bareUrl(/^https?$/, 'must be an http or https URL without a user and a password')
    .optional()
    .describe('what links in mails begin with, by default the HTTP address'),
  PUBLIC_FTP_URL: bareUrl(/^ftps?$/, 'must be an ftp or ftps URL without a user and a password')
    .optional()
    .describe(
      'the address that people are told to connect to by FTP, by default that of the FTP server of `npm start`',
    ),
  RUNBOOK_URL: bareUrl(/^https?$/, 'must be an http or https URL without a user and a password')
    .optional()
    .describe('what `runbook_url` of the alerts begins with; `npm run -s alert-rules` writes them with it'),
  HTTP_INLINE_LIMIT_MB: integer({ min: 1, max: 64, default: 16 }).describe(
    'body limit for creating imports, in MiB, which takes up to six times as much memory; it is 1 MiB elsewhere, and larger files are uploaded',
  ),
  HTTP_REQUESTS_PER_MINUTE: integer({ min: 0, max: 10_000_000, default: 0 }).describe(
    'maximum number of requests of one API key within a minute in one control plane; 0 is unlimited',
  ),
  HTTP_MAX_CONNECTIONS: integer({ min: 1, max: 100_000, default: 5_000 }).describe(
    'maximum number of open HTTP connections of one control plane, lower when the limit of open files requires it',
  ),
  HTTP_MAX_CONNECTIONS_PER_ADDRESS: integer({ min: 1, max: 100_000, default: 1_000 }).describe(
    'maximum number of open HTTP connections from one address (in IPv6, one /64) to one control plane; addresses in `TRUSTED_PROXIES` have no such limit',
  ),
  METRICS_HOST: z
    .string()
    .default('127.0.0.1')
    .describe("address that the engine's and the FTP server's metrics and health ports listen on"),
  ENGINE_METRICS_PORT: port(9464).describe('`/metrics`, `/healthz`, `/readyz` of the engine'),
  ENGINE_WORKERS: integer({ min: 1, max: 256, default: availableParallelism() }).describe(
    'worker threads of one engine',
  ),
  FTP_HOST: z.string().default('127.0.0.1').describe('address that the FTP server listens on'),
  FTP_PORT: port(2121).describe('control port of the FTP server'),
  FTP_PASSIVE_PORTS: z
    .string()
    .refine((text) => parsePortRange(text) !== null, { error: 'must be FIRST-LAST, or 0 for any free port' })
    .default('2122-2222')
    .describe('ports of passive data connections'),
  FTP_PUBLIC_HOST: optionalText().describe(
    'the address that passive replies name, by default the one that the client connected to',
  ),
  FTP_TLS_CERT: optionalText().describe(
    'PEM file of the certificate (with its chain) of the FTP server; with its key it switches on `AUTH TLS`, and it is read again when it changes',
  ),
  FTP_TLS_KEY: optionalText().describe('PEM file of the key of that certificate'),
  FTPS_PORT: bareInteger({ min: 0, max: 65535 })
    .optional()
    .describe(
      'port of implicit TLS, where a connection begins with the handshake; without it implicit TLS is off',
    ),
  FTP_TLS_REQUIRED: yesNo(false).describe('whether logins and data in the clear are refused'),
  FTP_TLS_RESUMPTION_REQUIRED: yesNo(true).describe(
    'whether data connections in TLS must resume the TLS session of their control connection; docs/uploads.md names the clients that cannot',
  ),
  FTP_MAX_SESSIONS: integer({ min: 1, max: 100_000, default: 500 }).describe(
    'maximum number of open FTP sessions of one process, lower when the limit of open files requires it',
  ),
  FTP_MAX_SESSIONS_PER_ADDRESS: integer({ min: 1, max: 100_000, default: 200 }).describe(
    'maximum number of open FTP sessions from one address to one process',
  ),
  FTP_MAX_SESSIONS_PER_ACCOUNT: integer({ min: 1, max: 100_000, default: 150 }).describe(
    'maximum number of open FTP sessions of one organization in one process',
  ),
  FTP_METRICS_PORT: port(9465).describe('`/metrics`, `/healthz`, `/readyz` of the FTP server'),
  BOOTSTRAP_API_KEY: z
    .string()
    .regex(/^[\w-]{16,128}$/, { error: 'must be 16 to 128 letters, digits, "-" or "_"' })
    .optional()
    .meta({
      isSecret: true,
      description:
        'the first system-admin key, by default a generated one; used only when the database has no organization yet',
    }),
  URL_IMPORT_ALLOW: commaList()
    .refine((list) => list.every((entry) => isNetwork(entry) || hostName.test(entry)), {
      error: 'must be comma-separated CIDRs, addresses and host names',
    })
    .describe(
      'comma-separated CIDRs and host names that URL imports and callbacks may reach although they are private',
    ),
  AUTH_FAILURES_PER_MINUTE: integer({ min: 1, max: 1_000_000, default: 20 }).describe(
    'maximum number of wrong credentials from one address (in IPv6, one /64) within a minute; above it, wrong ones from the address are refused for the rest of that minute',
  ),
  USER_LOCKOUT_FAILURES: integer({ min: 1, max: 1_000_000, default: 5 }).describe(
    'wrong passwords in a row after which a user is locked out',
  ),
  USER_LOCKOUT_MINUTES: integer({ min: 1, max: 1_000_000, default: 30 }).describe(
    'how long a lockout lasts, in minutes',
  ),
  TERMS_AND_CONDITIONS_VERSION: z
    .string()
    .regex(/^\d{1,15}$/, { error: 'must be a non-negative integer' })
    .transform(Number)
    .optional()
    .describe(
      'version of the terms and conditions that users agree to; without it a user can have no `terms_and_conditions_version` but null',
    ),
  DISABLE_SUBSCRIBER_DELETION: yesNo(false).describe('`true` refuses to delete subscribers'),
  TRUSTED_PROXIES: commaList()
    .refine((list) => list.every(isNetwork), { error: 'must be comma-separated CIDRs' })
    .describe('comma-separated CIDRs whose `X-Forwarded-For` is believed'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
      error: 'must be trace, debug, info, warn, error, fatal or silent',
    })
    .default('info')
    .describe('lowest level that is logged, one JSON line per event on standard error'),
})

/** Settings of the command line, which connects to a local or remote service. */
const clientSettingsSchema = z.object({
  ROLLCALL_URL: bareUrl(
    /^https?$/,
    'must be an http or https URL without a user and a password: the key belongs in ROLLCALL_API_KEY',
  )
    .default('http://127.0.0.1:8080')
    .describe('command line: where the service is'),
  ROLLCALL_API_KEY: optionalText().meta({ isSecret: true, description: 'command line: the API key' }),
  ROLLCALL_FTP: bareUrl(/^ftps?$/, 'must be ftp://HOST:PORT, or ftps://HOST:PORT')
    .optional()
    .describe(
      "command line: where `--via ftp` uploads files, by default port 2121 of the service's host; with `ftps` only over TLS",
    ),
  NO_COLOR: optionalText().describe('command line: any value keeps it from using colours'),
})

export type ClientSettings = Readonly<z.infer<typeof clientSettingsSchema>>

export type Settings = Readonly<z.infer<typeof settingsSchema>>

/**
 * Reads the settings from `env`. A `.env` file in the working folder sets variables that are missing in the
 * environment. A blank value counts as missing. Throws a StartError that lists all wrong settings.
 */
export function loadSettings(env: NodeJS.ProcessEnv = process.env): Settings {
  return load(settingsSchema, env, tlsIssues)
}

/** Reads the settings of the command line, by the same rules. */
export function loadClientSettings(env: NodeJS.ProcessEnv = process.env): ClientSettings {
  return load(clientSettingsSchema, env, () => [])
}

function load<T extends object>(
  schema: z.ZodType<T> & { shape: Record<string, z.core.$ZodType> },
  env: NodeJS.ProcessEnv,
  issuesBetween: (settings: T) => { path: PropertyKey[]; message: string }[],
): Readonly<T> {
  if (env === process.env && existsSync('.env')) process.loadEnvFile('.env')
  const values = Object.fromEntries(Object.entries(env).filter(([, value]) => value?.trim() !== ''))
  const parsed = schema.safeParse(values)
  const issues = parsed.success ? issuesBetween(parsed.data) : parsed.error.issues
  if (parsed.success && issues.length === 0) return Object.freeze(parsed.data)
  const problems = issues.map((issue) => {
    const name = String(issue.path[0])
    // Error messages are logged, so they must not contain secrets.
    const field = schema.shape[name]
    const isSecret = field !== undefined && z.globalRegistry.get(field)?.['isSecret'] === true
    const isShown = !isSecret && values[name]?.includes('@') !== true
    const shown = isShown ? JSON.stringify(values[name]) : 'not shown, as it may be secret'
    return `setting ${name} ${issue.message} (it is ${shown})`
  })
  throw new StartError(problems.join('; '))
}

/** Settings that need the certificate and its key are an error without them, because ignoring them would surprise. */
function tlsIssues(settings: Settings): { path: string[]; message: string }[] {
  if (settings.FTP_TLS_CERT !== undefined && settings.FTP_TLS_KEY !== undefined) return []
  return (['FTP_TLS_CERT', 'FTP_TLS_KEY', 'FTPS_PORT', 'FTP_TLS_REQUIRED'] as const)
    .filter((name) => settings[name] !== undefined && settings[name] !== false)
    .map((name) => ({ path: [name], message: 'needs both FTP_TLS_CERT and FTP_TLS_KEY' }))
}

/** Parses "2122-2222". "0" gives { first: 0, last: 0 }, which means any free port. Null when malformed. */
export function parsePortRange(text: string): { first: number; last: number } | null {
  if (text === '0') return { first: 0, last: 0 }
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text)
  if (match === null) return null
  const range = { first: Number(match[1]), last: Number(match[2]) }
  return range.first >= 1 && range.first <= range.last && range.last <= 65535 ? range : null
}

/** Formats the README's table of settings, in the schema's order. */
export function settingsTable(): string {
  const rows = Object.entries({ ...settingsSchema.shape, ...clientSettingsSchema.shape }).map(
    ([name, schema]) => {
      const fallback = z.safeParse(schema, undefined)
      return `| \`${name}\` | ${shownDefault(name, fallback.data)} | ${schema.description ?? ''} |`
    },
  )
  return ['| setting | default | |', '|---|---|---|', ...rows].join('\n')
}

function shownDefault(name: string, value: unknown): string {
  if (name === 'ENGINE_WORKERS') return 'cores'
  if (name === 'DATA_DIR') return '`./data`'
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return ''
  return `\`${JSON.stringify(value).replaceAll('"', '')}\``
}

/**
 * The environment for a child process: that of this process. `fallbacks` set variables that are missing in it,
 * `settings` override variables.
 */
export const programEnvironment = ({
  fallbacks = {},
  settings = {},
}: {
  fallbacks?: Record<string, string>
  settings?: Record<string, string>
}): Record<string, string> =>
  Object.fromEntries(
    Object.entries({ ...fallbacks, ...process.env, ...settings }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  )

/** The value of `PATH`. */
export const programSearchPath = (): string => process.env['PATH'] ?? ''

/** Whether a script of package.json or npx started this process, which both need the clone. */
export const isStartedByNpm = (): boolean => process.env['npm_lifecycle_event'] !== undefined
