import { errorMessage, StartError } from '../../shared/contract/errors.ts'
import { ApiRefusal, ServiceUnreachable } from './api-client.ts'
import { inCommandTerms } from './command-terms.ts'
import { exitCodes } from './exit-codes.ts'

/** A command failed. `hint` says what the user can do. */
export class CommandFailure extends Error {
  readonly exitCode: number
  readonly hint: string | null

  constructor(message: string, options: { exitCode?: number; hint?: string | null } = {}) {
    super(message)
    this.exitCode = options.exitCode ?? exitCodes.failed
    this.hint = options.hint ?? null
  }
}

export const usage = (message: string): CommandFailure =>
  new CommandFailure(message, { exitCode: exitCodes.wrongUsage })

/** What a service's refusal is to the command: wrong usage if the mapping alone, which --map gave, is at fault. */
export function refusedMap(error: unknown): unknown {
  const isMapAlone =
    error instanceof ApiRefusal &&
    error.message.split('; ').every((sentence) => sentence.startsWith('column_mapping'))
  if (!isMapAlone) return error
  const { lines, hint } = explain(error, { hasKey: true })
  return new CommandFailure(lines.join('\n'), { exitCode: exitCodes.wrongUsage, hint })
}

/** Describes what went wrong, one sentence a line, and what to do about it. */
export function explain(
  error: unknown,
  settings: { hasKey: boolean },
): { lines: string[]; hint: string | null } {
  if (error instanceof ApiRefusal)
    return { lines: inCommandTerms(error.message).split('; '), hint: hintFor(error, settings) }
  if (error instanceof ServiceUnreachable)
    return {
      lines: [error.message],
      hint: isCertificateProblem(error)
        ? certificateHint
        : 'start the service (rollcall start), or set ROLLCALL_URL to its address',
    }
  if (error instanceof CommandFailure) return { lines: error.message.split('\n'), hint: error.hint }
  if (error instanceof StartError) return { lines: [error.message], hint: null }
  return { lines: [errorMessage(error)], hint: null }
}

/** For a server whose certificate is not publicly trusted. */
export const certificateHint =
  "if you trust the server's certificate, set NODE_EXTRA_CA_CERTS to the file that has it"

/** Whether the server's certificate is the reason, at any depth of causes. */
export function isCertificateProblem(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && /CERT|SIGNATURE|SELF_SIGNED|ALTNAME/.test(String(at.code))) return true
  return false
}

/** Whether a 413 means that the organization's quota is full. Then the file doesn't fit by any way. */
export const isOverQuota = ({ status, message }: ApiRefusal): boolean =>
  status === 413 && /the organization's quota|UPLOAD_MAX_MB/.test(message)

function hintFor(refusal: ApiRefusal, { hasKey }: { hasKey: boolean }): string | null {
  const { status, message } = refusal
  if (message.includes('is neither a built-in column'))
    return 'create the field with "rollcall field create", or choose other columns with --map (- ignores a column)'
  if (status === 401)
    return hasKey
      ? 'this service does not accept the key in ROLLCALL_API_KEY; "rollcall recover-key", run with the settings of its database, makes a new one'
      : 'set ROLLCALL_API_KEY to the key that the first start printed, or to one of "rollcall key create"'
  if (status === 403)
    return "the role or the permissions of the key are not sufficient: use an administrator's key, or ask an administrator for the permission"
  if (isOverQuota(refusal))
    return '"rollcall imports" shows which imports are unfinished, and "rollcall cancel ID" ends one; "rollcall uploads" shows and removes uploads; an operator can raise UPLOAD_MAX_MB'
  if (status === 413) return 'upload the file instead: --via http'
  if (status === 429) return 'wait for the time in the message, and try again'
  return null
}
