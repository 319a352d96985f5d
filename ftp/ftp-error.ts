/** A refusal: an FTP reply code and the sentence that the client shows to its user. */
export class FtpError extends Error {
  readonly code: number

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

const maxPrintedCharacters = 200

/**
 * What a client sent, made fit for a reply: at most 200 characters, and `?` for each control character. A carriage
 * return would begin a line that looks like a reply of its own.
 */
export function printable(text: string): string {
  const characters = Array.from(text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?'))
  return characters.length <= maxPrintedCharacters
    ? characters.join('')
    : `${characters.slice(0, maxPrintedCharacters).join('')}…`
}

/** `SUBJECT: reason`, or the reason alone when the client named no subject. */
export function refusal(code: number, subject: string | null, reason: string): FtpError {
  return new FtpError(code, (subject ?? '') === '' ? reason : `${printable(subject ?? '')}: ${reason}`)
}
