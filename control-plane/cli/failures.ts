import { messageOf, StartError } from '../../shared/contract/errors.ts'
import { ApiRefusal, ServiceUnreachable } from './api-client.ts'

/** A command that can't do what it was asked for: 1, or 2 where it was asked for wrongly. */
export class CommandFailure extends Error {
  readonly exitCode: number
  readonly hint: string | null

  constructor(message: string, options: { exitCode?: number; hint?: string | null } = {}) {
    super(message)
    this.exitCode = options.exitCode ?? 1
    this.hint = options.hint ?? null
  }
}

export const usage = (message: string): CommandFailure => new CommandFailure(message, { exitCode: 2 })

/** What went wrong, a sentence a line, and what to do about it. */
export function explain(
  error: unknown,
  settings: { hasKey: boolean },
): { lines: string[]; hint: string | null } {
  if (error instanceof ApiRefusal) return { lines: error.message.split('; '), hint: hintFor(error, settings) }
  if (error instanceof ServiceUnreachable)
    return {
      lines: [error.message],
      hint: isCertificateProblem(error)
        ? 'name a certificate that is not publicly trusted in NODE_EXTRA_CA_CERTS'
        : 'is it started (npx rollcall start), and does ROLLCALL_URL say where?',
    }
  if (error instanceof CommandFailure) return { lines: error.message.split('\n'), hint: error.hint }
  if (error instanceof StartError) return { lines: [error.message], hint: null }
  return { lines: [messageOf(error)], hint: null }
}

/** Whether the server's certificate is the reason, at any depth of causes. */
export function isCertificateProblem(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if (/CERT|SIGNATURE|SELF_SIGNED|ALTNAME/.test((at as NodeJS.ErrnoException).code ?? '')) return true
  return false
}

/** Where the organization's quota is full, and not the body too large: the same file doesn't fit by another way either. */
export const isOverQuota = ({ status, message }: ApiRefusal): boolean =>
  status === 413 && message.includes("the organization's quota")

function hintFor(refusal: ApiRefusal, { hasKey }: { hasKey: boolean }): string | null {
  const { status } = refusal
  if (status === 401)
    return hasKey
      ? 'ROLLCALL_API_KEY has a key that this service does not take; "rollcall recover-key", run beside its database, makes a new one'
      : 'set ROLLCALL_API_KEY to the key that the first start printed, or to one of "rollcall key create"'
  if (status === 403)
    return "the key's role or its user's permissions are not enough: use the key of an administrator, or have the permission given"
  if (isOverQuota(refusal))
    return '"rollcall imports" shows which imports are unfinished and "rollcall cancel ID" ends one; uploads are removed by FTP; an operator may raise UPLOAD_MAX_MB'
  if (status === 413) return 'upload the file instead: --via ftp'
  if (status === 429) return 'wait as long as it says, and try again'
  return null
}
