import { request as httpRequest, type ClientRequest } from 'node:http'
import { basic, bootstrapKey, type Json } from './service.ts'

interface PutReply {
  status: number
  body: Json
}

/** A PUT of a file that sends one piece at a time, so that a test can stop between two of them. */
export class HttpUpload {
  readonly request: ClientRequest
  /** Rejects when the connection breaks before a reply. */
  readonly reply: Promise<PutReply>
  /** Whether the server asked for the body. */
  isContinued = false

  constructor(
    origin: string,
    filename: string,
    { headers = {}, key = bootstrapKey }: { headers?: Record<string, string | number>; key?: string } = {},
  ) {
    this.request = httpRequest(`${origin}/svc/api/v2/uploads/${encodeURIComponent(filename)}`, {
      method: 'PUT',
      agent: false,
      headers: { authorization: basic(`api:${key}`), ...headers },
    })
    this.reply = new Promise((resolve, reject) => {
      this.request.once('error', reject).once('response', (response) => {
        let text = ''
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => (text += piece))
          .once('error', reject)
          .once('end', () => resolve({ status: response.statusCode!, body: JSON.parse(text) }))
      })
    })
    this.reply.catch(() => undefined)
    this.request.once('continue', () => (this.isContinued = true))
    this.request.flushHeaders()
  }

  write(piece: Uint8Array | string): void {
    this.request.write(piece)
  }

  /** Sends the last piece; resolves to the reply. */
  end(piece: Uint8Array | string = ''): Promise<PutReply> {
    this.request.end(piece)
    return this.reply
  }

  /** Cuts the connection. */
  cut(): void {
    this.request.destroy()
  }
}

/** The headers of a part of a file, for a body that has all of it. */
export const partOf = (
  first: number,
  length: number,
  total: number,
): { 'content-range': string; 'content-length': number } => ({
  'content-range': `bytes ${first}-${first + length - 1}/${total}`,
  'content-length': length,
})
