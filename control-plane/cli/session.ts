import type { ClientSettings } from '../../shared/runtime/config.ts'
import type { ApiClient } from './api-client.ts'
import type { Terminal } from './terminal.ts'

/** What a command that talks to the service works with. */
export interface Session {
  client: ApiClient
  settings: ClientSettings
  terminal: Terminal
  /** One JSON value on a line of standard output. */
  print: (value: unknown) => void
  /** A line on standard output. */
  say: (text: string) => void
  /** The exit code when nobody reads standard output any more: of work that isn't done it must not be 0. */
  exitCodeUnread: number
}
