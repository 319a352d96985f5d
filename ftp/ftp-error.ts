/** A refusal with the FTP reply code that it deserves. */
export class FtpError extends Error {
  readonly code: number

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export const noSuchFile = (name: string) => new FtpError(550, `there is no file ${name}`)
