import { AddressRefused } from './address-guard.ts'
import { ImportError } from '../contract/errors.ts'

export const downloadSchemes = ['http', 'https', 'ftp', 'ftps', 'other'] as const

/** Classes of download failures, as few as the different actions of an operator on call. */
export const downloadFailures = [
  /** The host name can't be resolved. */
  'name',
  'connection',
  'tls',
  'timeout',
  'login',
  'not_found',
  'status_4xx',
  'status_5xx',
  /** Fewer bytes than announced, or a connection that ended in the middle. */
  'broken_off',
  /** The address guard refused the address. */
  'address_refused',
  'too_large',
  'unreadable',
  'other',
] as const
export type DownloadFailure = (typeof downloadFailures)[number]

/** Cause of an error that has no code of the system: it carries the class of the failure. */
export class DownloadProblem extends Error {
  readonly failure: DownloadFailure

  constructor(failure: DownloadFailure, cause?: unknown) {
    super(failure, { cause })
    this.failure = failure
  }
}

export function classifyStatus(status: number): DownloadFailure {
  if (status === 401 || status === 403 || status === 407) return 'login'
  if (status === 404 || status === 410) return 'not_found'
  if (status >= 500) return 'status_5xx'
  return status >= 400 ? 'status_4xx' : 'other'
}

export function parseScheme(url: string): (typeof downloadSchemes)[number] {
  const scheme = URL.parse(url)?.protocol.slice(0, -1)
  return downloadSchemes.find((known) => known === scheme) ?? 'other'
}

/** The class of the first error in the chain of causes that has one. */
export function classifyDownloadFailure(error: unknown): DownloadFailure {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const failure = classifyError(at)
    if (failure !== null) return failure
  }
  return 'other'
}

function classifyError(error: Error): DownloadFailure | null {
  if (error instanceof DownloadProblem) return error.failure
  if (error instanceof AddressRefused) return 'address_refused'
  if (error instanceof ImportError && error.code === 'source_unreadable') return 'unreadable'
  if (error.name === 'TimeoutError') return 'timeout'
  const code = 'code' in error ? error.code : undefined
  if (typeof code === 'number') return classifyFtpReply(code)
  return typeof code === 'string' ? classifyCode(code) : null
}

function classifyFtpReply(code: number): DownloadFailure | null {
  if (code === 430 || code === 530 || code === 532) return 'login'
  if (code === 450 || code === 550) return 'not_found'
  return code === 425 || code === 426 ? 'broken_off' : null
}

/** Classifies codes of the system, of TLS and of undici. */
function classifyCode(code: string): DownloadFailure | null {
  if (/^(ENOTFOUND|EAI_)/.test(code)) return 'name'
  if (/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/.test(code)) return 'connection'
  if (code.includes('TIMEOUT') || code === 'ETIMEDOUT') return 'timeout'
  if (/CERT|SIGNATURE|^ERR_(TLS|SSL)/.test(code)) return 'tls'
  if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_)/.test(code)) return 'broken_off'
  return null
}
