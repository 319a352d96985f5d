import { spawnSync } from 'node:child_process'
import t from 'tap'
import { crashSetting } from '../../../helpers/crash-at.ts'

/** Where crash-at.ts kills a process, on a connection that replies as the test says. */

type Reply = 'ok' | 'conflict' | 'refused'

/** The commands are sent one after the other, each in the one transaction that is open then. */
const program = `
  import { writeSync } from 'node:fs'
  import { MongoServerError } from 'mongodb'
  import { Connection } from 'mongodb/lib/cmap/connection.js'
  const labels = { conflict: ['TransientTransactionError'], refused: [] }
  let reply
  Connection.prototype.command = async () => {
    writeSync(1, reply + ' ')
    if (reply !== 'ok') throw new MongoServerError({ message: reply, errorLabels: labels[reply] })
    return { ok: 1 }
  }
  await import(process.env.CRASH_AT)
  const session = { id: { id: Buffer.from('s') }, inTransaction: () => true }
  for (const [command, next] of JSON.parse(process.env.COMMANDS)) {
    reply = next
    await Connection.prototype.command.call(null, 'db', command, { session }).catch(() => undefined)
  }
  writeSync(1, 'end')
`

/** The replies to the commands that were sent, and `end` where the process wasn't killed. */
function sentReplies(point: string, commands: [command: object, reply: Reply][]): string {
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    env: {
      ...process.env,
      [crashSetting]: point,
      CRASH_AT: new URL('../../../helpers/crash-at.ts', import.meta.url).href,
      COMMANDS: JSON.stringify(commands),
    },
    encoding: 'utf8',
  })
  t.equal(signal, stdout.endsWith('end') ? null : 'SIGKILL')
  return stdout.trim()
}

const inserts = (...replies: Reply[]): [object, Reply][] =>
  replies.map((reply) => [{ insert: 'subscribers' }, reply])

t.test('a command that a write conflict undoes is not counted', async (t) => {
  const point = 'insert subscribers after 2'
  t.equal(sentReplies(point, inserts('ok', 'ok', 'ok')), 'ok ok')
  t.equal(sentReplies(point, inserts('ok', 'conflict', 'conflict', 'ok', 'ok')), 'ok conflict conflict ok')
  t.equal(sentReplies(point, inserts('conflict', 'ok', 'conflict')), 'conflict ok conflict end')
  const before = 'insert subscribers before 2'
  t.equal(sentReplies(before, inserts('ok', 'ok')), 'ok')
  t.equal(sentReplies(before, inserts('conflict', 'ok', 'conflict', 'ok')), 'conflict ok')
})

t.test('a command that is refused is counted, and the process gets no reply to kill it after', async (t) => {
  t.equal(sentReplies('insert subscribers after 2', inserts('refused', 'ok', 'ok')), 'refused ok')
  t.equal(sentReplies('insert subscribers before 2', inserts('refused', 'ok')), 'refused')
})

t.test('a transaction that a write conflict undid goes through the whole path again', async (t) => {
  const point = 'insert subscribers > commitTransaction before 1'
  const insert = { insert: 'subscribers' }
  const [abort, commit] = [{ abortTransaction: 1 }, { commitTransaction: 1 }]
  const undone: [object, Reply][] = [
    [insert, 'conflict'],
    [abort, 'ok'],
    [commit, 'ok'],
  ]
  t.equal(sentReplies(point, undone), 'conflict ok ok end')
  t.equal(sentReplies(point, [...undone, [insert, 'ok'], [commit, 'ok']]), 'conflict ok ok ok')
  const after = 'insert subscribers > commitTransaction after 1'
  const twice: [object, Reply][] = [
    [insert, 'ok'],
    [commit, 'conflict'],
    [insert, 'ok'],
    [commit, 'ok'],
  ]
  t.equal(sentReplies(after, twice), 'ok conflict ok ok')
})
