import { parentPort, workerData } from 'node:worker_threads'
import { openDatabase } from '../../shared/runtime/database.ts'
import { trimHeapWhenIdle } from '../../shared/runtime/idle-memory.ts'
import { sessionId } from '../../shared/runtime/transactions.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import { registerSessions } from '../store/engines.ts'
import { BsonWriter } from '../stages/write/bson/bson-writer.ts'
import { importContext, type ImportContext } from '../stages/write/import-context.ts'
import { processChunk } from '../process-chunk.ts'
import type { ChunkRunOptions } from '../stages/write/chunk-run.ts'
import type { Lane } from '../stages/write/lane.ts'
import { writeSmallImport } from '../stages/write/small-import.ts'
import {
  cancellation,
  lanesPerWorker,
  progressIndex,
  type ChunkReport,
  type ChunkTask,
  type SmallImportReport,
  type SmallImportTask,
  type WorkerStart,
} from './messages.ts'

/**
 * Entry of a worker thread. It connects to the database itself, because a MongoClient can't cross threads, and registers
 * its sessions with the engine. Then it runs a chunk per lane. Piscina waits for the exported promise, so no task comes
 * earlier.
 */
async function startWorker(): Promise<
  (task: ChunkTask | SmallImportTask) => Promise<ChunkReport | SmallImportReport>
> {
  const start = workerData as WorkerStart
  trimHeapWhenIdle()
  const database = await openDatabase({
    uri: start.mongodbUri,
    name: start.mongodbDatabase,
    maxPoolSize: lanesPerWorker + 2,
    // There is a thread for each core.
    heartbeatFrequencyMS: 30_000,
  })
  const { client, collections } = database
  const staging = openStaging(start.stagingLocation, collections)

  const laneNumbers = new Int32Array(start.laneCounter)
  const lanes: Lane[] = Array.from({ length: lanesPerWorker }, () => ({
    session: client.startSession(),
    stripe: `e${start.firstStripe + Atomics.add(laneNumbers, 0, 1)}`,
    buffer: Buffer.alloc(0),
    batchBuffers: {
      subscribers: new BsonWriter(),
      updates: new BsonWriter(),
      reactions: new BsonWriter(1024),
      failures: new BsonWriter(),
    },
  }))
  const sessionIds = lanes.map(({ session }) => sessionId(session))
  await registerSessions(collections, start.engineId, sessionIds)

  const contexts = new Map<number, ImportContext>()
  const readContext = async (importId: number): Promise<ImportContext | null> => {
    const known = contexts.get(importId)
    if (known !== undefined) return known
    const document = await collections.imports.findOne({ _id: importId })
    const context = document === null || document.partition === null ? null : importContext(document)
    const [oldest] = contexts.keys()
    if (oldest !== undefined && contexts.size >= maxContexts) contexts.delete(oldest)
    if (context !== null) contexts.set(importId, context)
    return context
  }

  return async (task) => {
    const cancelFlag = new Int32Array(task.cancellation)
    const lane = lanes.pop()
    if (lane === undefined)
      throw new Error(`a worker has ${lanesPerWorker} lanes and was given one more chunk`)
    try {
      const options: ChunkRunOptions = {
        database,
        lane,
        isStopped: () => {
          Atomics.add(cancelFlag, progressIndex, 1)
          return Atomics.load(cancelFlag, 0) !== cancellation.run
        },
        onBatch: (report) => parentPort?.postMessage(report),
      }
      return 'document' in task
        ? await writeSmallImport(options, task)
        : await processChunk({ ...options, staging, task, importContext: readContext })
    } finally {
      lanes.push(lane)
    }
  }
}

/** Import contexts that a worker keeps. */
const maxContexts = 32

export default startWorker()
