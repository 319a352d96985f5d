import { AddressRefused } from './address-guard.ts'
import { ImportError } from '../contract/errors.ts'

export const downloadSchemes = ['http', 'https', 'ftp', 'ftps', 'other'] as const

/** What goes wrong with downloads, in the few classes that somebody on call acts on differently. */
export const downloadFailures = [
  /** The host name isn't known. */
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
  /** Where it leads is closed to imports. */
  'address_refused',
  'too_large',
  'unreadable',
  'other',
] as const
export type DownloadFailure = (typeof downloadFailures)[number]

/** As the cause of an error: what it is, where no code of the system says so. */
export class DownloadProblem extends Error {
  readonly failure: DownloadFailure

  constructor(failure: DownloadFailure, cause?: unknown) {
    super(failure, { cause })
    this.failure = failure
  }
}

export function failureOfStatus(status: number): DownloadFailure {
  if (status === 401 || status === 403 || status === 407) return 'login'
  if (status === 404 || status === 410) return 'not_found'
  if (status >= 500) return 'status_5xx'
  return status >= 400 ? 'status_4xx' : 'other'
}

export function schemeOf(url: string): (typeof downloadSchemes)[number] {
  const scheme = URL.parse(url)?.protocol.slice(0, -1)
  return downloadSchemes.find((known) => known === scheme) ?? 'other'
}

/** The first of an error and its causes that tells. */
export function downloadFailureOf(error: unknown): DownloadFailure {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const failure = failureOf(at)
    if (failure !== null) return failure
  }
  return 'other'
}

function failureOf(error: Error): DownloadFailure | null {
  if (error instanceof DownloadProblem) return error.failure
  if (error instanceof AddressRefused) return 'address_refused'
  if (error instanceof ImportError && error.code === 'source_unreadable') return 'unreadable'
  if (error.name === 'TimeoutError') return 'timeout'
  const { code } = error as { code?: unknown }
  if (typeof code === 'number') return failureOfFtpReply(code)
  return typeof code === 'string' ? failureOfCode(code) : null
}

function failureOfFtpReply(code: number): DownloadFailure | null {
  if (code === 430 || code === 530 || code === 532) return 'login'
  if (code === 450 || code === 550) return 'not_found'
  return code === 425 || code === 426 ? 'broken_off' : null
}

/** Codes of the system, of TLS and of undici. */
function failureOfCode(code: string): DownloadFailure | null {
  if (/^(ENOTFOUND|EAI_)/.test(code)) return 'name'
  if (/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL)$/.test(code)) return 'connection'
  if (code.includes('TIMEOUT') || code === 'ETIMEDOUT') return 'timeout'
  if (/CERT|SIGNATURE|^ERR_(TLS|SSL)/.test(code)) return 'tls'
  if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|HPE_)/.test(code)) return 'broken_off'
  return null
}
