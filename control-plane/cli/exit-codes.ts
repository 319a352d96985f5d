/** The exit codes of the command line. The help text names those of its users. */
export const exitCodes = {
  done: 0,
  /** The service refused or failed, or the command itself failed. */
  failed: 1,
  wrongUsage: 2,
  /** The watched import finished, but every row failed, or more than --fail-on allows. */
  rowsFailed: 3,
  /** What shells report after Ctrl-C (SIGINT). */
  interrupted: 130,
  /** What shells report for a program whose reader has closed the pipe (SIGPIPE). */
  brokenPipe: 141,
} as const
