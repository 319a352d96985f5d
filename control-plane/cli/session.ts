import type { ClientSettings } from '../../shared/runtime/config.ts'
import type { ApiClient } from './api-client.ts'
import type { Terminal } from './terminal.ts'

/** What a command needs to talk to the service. */
export interface Session {
  client: ApiClient
  settings: ClientSettings
  terminal: Terminal
  /** One JSON value on a line of standard output. */
  print: (value: unknown) => void
  /** A line on standard output. */
  say: (text: string) => void
  /** The exit code when the reader of standard output has gone. While work is unfinished it must not be 0. */
  exitCodeUnread: number
}
