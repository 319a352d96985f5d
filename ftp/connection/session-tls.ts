import { randomBytes } from 'node:crypto'
import { Server, type Socket } from 'node:net'
import { createSecureContext, TLSSocket, type SecureContext } from 'node:tls'

/**
 * The maximum of TLS 1.3, so that a long session can open data connections to its end. A ticket works only in its own
 * session, so a long lifetime costs no security.
 */
const ticketLifetimeSeconds = 7 * 24 * 3600

/** A method of Node.js that its types and its documentation leave out. */
interface TicketContext {
  /**
   * The first element of the result decides. For a new ticket: 1 issues it, 0 issues none. For a ticket that the client
   * presents: 2 accepts it and issues a new one, 1 accepts it, 0 asks for a full handshake.
   */
  onticketkeycallback: (name: Buffer, iv: Buffer, isNew: boolean) => (number | Buffer)[]
  enableTicketKeyCallback: () => void
}

/**
 * TLS of one FTP session. Its context has ticket keys of its own, and only the control connection and connections that
 * resume it get something that can be resumed. So a data connection that resumes belongs to its control connection.
 *
 * Clients that offer TLS 1.2 get it: there a TLS session may be resumed any number of times, by a ticket or, where the
 * client takes no tickets (curl), by its id. In TLS 1.3 clients use a ticket once, so each data connection has to bring
 * a new one: without new tickets PHP is refused every second transfer. But many clients end an upload without reading
 * the new ticket, which resets the connection: with `curl --tlsv1.3` (7.88) 15 of 20 uploads of 0.2 and 1.5 MB failed.
 *
 * Node says whether a session was resumed, not which, so a context for all sessions wouldn't do. Comparing session ids
 * wouldn't either: TLS 1.3 has none, and Go resumes by tickets only. A session costs 0.2 ms and 20 to 40 KiB.
 */
export class SessionTls {
  readonly #context: SecureContext
  /** A server that never listens: Node.js looks up sessions by their id through its events. */
  readonly #sessionsById = new Server()
  #control: TLSSocket | null = null
  #latest: TLSSocket | null = null

  /** `hello` is the client's first TLS message. */
  constructor(pems: { cert: Buffer; key: Buffer }, hello: Buffer) {
    const isTls13Alone = offersTls13Alone(hello)
    this.#context = createSecureContext({
      ...pems,
      sessionTimeout: ticketLifetimeSeconds,
      ...(isTls13Alone ? {} : { maxVersion: 'TLSv1.2' }),
    })
    this.#limitTickets({ renews: isTls13Alone })
    this.#keepSessionById()
  }

  /** The server's side of TLS, before the handshake. The first connection is the control connection. */
  wrap(socket: Socket): TLSSocket {
    const secure = new TLSSocket(socket, {
      isServer: true,
      secureContext: this.#context,
      server: this.#sessionsById,
    })
    secure.on('error', () => undefined)
    this.#control ??= secure
    this.#latest = secure
    return secure
  }

  /** False in a full handshake of a data connection, which may be another client's. */
  #isOfThisClient(): boolean {
    return this.#latest === this.#control || this.#latest?.isSessionReused() === true
  }

  #limitTickets({ renews }: { renews: boolean }): void {
    const context = this.#context.context as TicketContext
    const [keyName, hmacKey, aesKey] = [randomBytes(16), randomBytes(16), randomBytes(16)]
    context.onticketkeycallback = (name, _iv, isNew) => {
      if (isNew) return [this.#isOfThisClient() ? 1 : 0, hmacKey, aesKey, keyName, randomBytes(16)]
      const accepted = renews ? 2 : 1
      return [name.equals(keyName) ? accepted : 0, hmacKey, aesKey]
    }
    context.enableTicketKeyCallback()
  }

  #keepSessionById(): void {
    let kept: { id: Buffer; session: Buffer } | null = null
    this.#sessionsById.on('newSession', (id: Buffer, session: Buffer, done: () => void) => {
      if (this.#isOfThisClient()) kept = { id, session }
      done()
    })
    this.#sessionsById.on(
      'resumeSession',
      (id: Buffer, done: (error: null, session: Buffer | null) => void) => {
        done(null, kept?.id.equals(id) === true ? kept.session : null)
      },
    )
  }
}

/** Whether the client offers no version but TLS 1.3: the extension `supported_versions` (RFC 8446, section 4.2.1). */
function offersTls13Alone(hello: Buffer): boolean {
  for (let at = hello.indexOf(versionsMark); at !== -1; at = hello.indexOf(versionsMark, at + 1)) {
    const length = hello[at + 4] ?? 0
    if (length < 2 || hello[at + 3] !== length + 1) continue
    const versions: string[] = hello.toString('hex', at + 5, at + 5 + length).match(/.{4}/g) ?? []
    return versions.includes('0304') && !versions.includes('0303')
  }
  return false
}

/** Type of the extension, and the first byte of its length. */
const versionsMark = Buffer.from([0, 43, 0])
