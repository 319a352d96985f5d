import type { Session } from './ftp-srv-internals.ts'

/** A command line longer than this is no command. */
const longestLine = 1_024

/**
 * Reads a session's control connection in place of ftp-srv, which takes every packet for whole lines: lines are put
 * together, bounded, and handled one after the other. The socket is never paused, so that its end is seen during a
 * transfer.
 */
export function readControlLines(session: Session, onError: (error: unknown) => void): void {
  const socket = session.commandSocket
  let rest = ''
  let queue: Promise<unknown> = Promise.resolve()

  socket.removeAllListeners('data')
  socket.pause = () => socket
  socket.on('data', (data: Buffer) => {
    const lines = (rest + data.toString('utf8')).split('\n')
    rest = lines.pop()!
    if (rest.length > longestLine || lines.some((line) => line.length > longestLine)) {
      rest = ''
      void session.close(500, 'the command line is too long')
      return
    }
    for (const line of lines) {
      const text = line.replace(/\r$/, '')
      if (text !== '') queue = queue.then(() => handle(session, text, onError))
    }
  })
}

async function handle(session: Session, line: string, onError: (error: unknown) => void): Promise<void> {
  if (session.commandSocket.destroyed) return
  try {
    await session.commands.handle(line)
  } catch (error) {
    onError(error)
    await session.reply(501, 'the command has a wrong or missing parameter')
  }
}
