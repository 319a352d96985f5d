import { clock } from '../../../shared/runtime/clock.ts'
import { UploadDirectory, type NamedUpload } from '../../../shared/storage/uploads/upload-directory.ts'
import type { UploadFile } from '../../../shared/storage/uploads/open-uploads.ts'
import {
  failureReason,
  logFileAct,
  loggedFileAct,
  type FileAct,
} from '../../../shared/storage/uploads/file-acts.ts'
import { composeName, joinName } from '../../../shared/values/upload-names.ts'
import { UploadRefused } from '../../../shared/storage/uploads/upload-refused.ts'
import type { Upload } from '../../../shared/storage/uploads/upload.ts'
import { uploadLimits } from '../../../shared/store/ledger.ts'
import type { RefusedCall, Reply, RequestCall } from '../../api/endpoint.ts'
import { RequestError } from '../../api/request-error.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { readContentRange, requestedRange, type ContentRange } from './ranges.ts'
import { badName, beyondEnd, takenOver, toRequestError, wrongBodyLength } from './refusals.ts'
import type { UploadView } from './schemas.ts'
import { clientLog, TransferLog } from './transfer-log.ts'
import type { Transfer } from './transfers.ts'
import { toView } from './view.ts'

export async function listUploads(call: RequestCall): Promise<UploadView[]> {
  const { deps, organizationId } = call
  const [pairs, zoneName] = await Promise.all([
    openDirectory(call).listPairs(),
    deps.reads.timeZone(organizationId),
  ])
  return pairs.map((pair) => toView(pair, zoneName))
}

/** Receives a file, or the range of it that Content-Range names. Refuses what it can before the body is read. */
export async function receiveUpload(call: RequestCall): Promise<UploadView> {
  const { deps, organizationId, header, acquireTransfer } = call
  const directory = openDirectory(call)
  const filename = composeName(nameInPath(call))
  const log = new TransferLog(call, 'upload', directory.nameInOrganization(filename))
  try {
    const problem = directory.nameProblem(filename)
    if (problem !== null) throw badName(problem)
    const [length] = header('content-length')
    const contentLength = length === undefined ? undefined : Number(length)
    const range = readContentRange(header('content-range'), contentLength)
    const zoneName = await deps.reads.timeZone(organizationId)
    await acquireTransfer()
    const pair = await mappingRefusals(deps, () => receive(call, { filename, log, range, contentLength }))
    return toView(pair, zoneName)
  } catch (error) {
    log.failed(error)
    throw error
  } finally {
    log.write()
  }
}

/** Returns what writes the line of an act that is refused before its handler. */
export const refusalLogger =
  (event: FileAct['event']) =>
  (call: RefusedCall, error: unknown): void => {
    const filename = joinName(call.caller.uploadsFolder, composeName(nameInPath(call)))
    const reason = failureReason(error, [RequestError])
    const transfer = event === 'delete' ? {} : { bytes: 0, seconds: 0, resumed: false }
    logFileAct(clientLog(call), { event, protocol: 'http', filename, ...transfer, result: 'refused', reason })
  }

interface Received {
  /** As the caller sees it. */
  filename: string
  log: TransferLog
  range: ContentRange | null
  contentLength: number | undefined
}

async function receive(
  call: RequestCall,
  { filename, log, range, contentLength }: Received,
): Promise<NamedUpload> {
  const { deps, caller } = call
  const transfer = log.began(deps.transfers.begin(caller, 'in'))
  try {
    const directory = openDirectory(call)
    const upload = await directory.beginUpload(filename, {
      append: false,
      start: range?.first,
      isAtEnd: range !== null,
      announced: range === null ? contentLength : range.total - range.first,
    })
    log.isResumed = upload.isResumed
    try {
      await receiveInto(upload, call, range, transfer).catch((error: unknown) => {
        throw upload.lost.aborted ? takenOver(filename) : error
      })
      transfer.complete()
      log.size = upload.size
      if (!upload.isPublished) log.stayedUnfinished()
      const pair = await directory.findPair(filename)
      // The file may be renamed or deleted by now, as by the import that it started.
      if (pair.finished !== null || pair.unfinished !== null) return pair
      return { ...pair, finished: { name: filename, size: upload.size, modifiedAt: clock.now() } }
    } finally {
      await upload.end()
    }
  } finally {
    transfer.end()
  }
}

async function receiveInto(
  upload: Upload,
  { fileBody }: RequestCall,
  range: ContentRange | null,
  transfer: Transfer,
): Promise<void> {
  const signal = AbortSignal.any([transfer.signal, upload.lost])
  await upload.open(signal)
  const pieces = transfer.counted(fileBody(signal))
  await upload.receive(range === null ? pieces : ofRange(pieces, range))
  if (range !== null && range.last < range.total - 1) return upload.sync()
  await upload.prepare()
  signal.throwIfAborted()
  return upload.publish(signal)
}

/** Yields the bytes of the range. Throws `invalid_request` when the body has fewer or more. */
async function* ofRange(
  pieces: AsyncIterable<Buffer>,
  { first, last, total }: ContentRange,
): AsyncGenerator<Buffer> {
  const length = last - first + 1
  let size = 0
  for await (const piece of pieces) {
    const rest = length - size
    size += piece.length
    yield piece.subarray(0, rest)
    if (size > length) throw wrongBodyLength('more', last + 1, total)
  }
  if (size < length) throw wrongBodyLength('fewer', first + size, total)
}

/** The finished file, or the range of it that the request asks for. */
export async function sendUpload(call: RequestCall): Promise<Reply> {
  const { deps, acquireTransfer } = call
  const directory = openDirectory(call)
  const filename = composeName(nameInPath(call))
  const log = new TransferLog(call, 'download', directory.nameInOrganization(filename))
  try {
    await acquireTransfer()
    const file = await mappingRefusals(deps, () => directory.open(filename))
    return sentFile(call, { filename, file, log })
  } catch (error) {
    log.failed(error)
    log.write()
    throw error
  }
}

function sentFile(
  call: RequestCall,
  { filename, file, log }: { filename: string; file: UploadFile; log: TransferLog },
): Reply {
  const { header, onClose } = call
  onClose(() => void file.close().catch(() => undefined))
  const { size, modifiedAt, version } = file
  const etag = `"${size.toString(16)}-${version}"`
  const lastModified = modifiedAt.toUTCString()
  const range = requestedRange(header('range'), header('if-range'), { size, etag })
  if (range === null) {
    const { code, message, status } = beyondEnd(filename, size)
    throw new RequestError(code, message, { status, headers: { 'Content-Range': `bytes */${size}` } })
  }
  const { start, end } = range === 'whole' ? { start: 0, end: size } : range
  Object.assign(log, { size, isResumed: start > 0 })
  return {
    stream: content(call, file, log, { start, end }),
    contentType: 'application/octet-stream',
    status: range === 'whole' ? 200 : 206,
    headers: {
      'Accept-Ranges': 'bytes',
      ETag: etag,
      'Last-Modified': lastModified,
      'Content-Length': String(end - start),
      ...(range === 'whole' ? {} : { 'Content-Range': `bytes ${start}-${end - 1}/${size}` }),
    },
  }
}

async function* content(
  { deps, caller, cutReply }: RequestCall,
  file: UploadFile,
  log: TransferLog,
  range: { start: number; end: number },
): AsyncGenerator<Buffer> {
  const transfer = log.began(deps.transfers.begin(caller, 'out'))
  // The client may not read, and then no further piece is asked for.
  transfer.signal.addEventListener('abort', cutReply)
  let rest = range.end - range.start
  let failure: unknown
  try {
    for await (const piece of transfer.counted(file.stream(range))) {
      rest -= piece.length
      yield piece
    }
    // Cuts the connection: the client would take the next reply for the missing bytes.
    if (rest > 0) throw new Error('the file became shorter while it was sent')
    transfer.complete()
  } catch (error) {
    failure = error
    throw error
  } finally {
    if (transfer.signal.aborted) failure ??= transfer.signal.reason
    if (deps.stopping.aborted) failure ??= downloadStopped()
    if (failure !== undefined) log.failed(failure)
    transfer.end()
    log.write()
  }
}

const downloadStopped = () =>
  new RequestError('internal_error', 'the service is stopping; get the rest of it with a Range', {
    status: 503,
  })

/** Deletes the finished file, or else the unfinished upload. */
export async function deleteUpload(call: RequestCall): Promise<void> {
  const directory = openDirectory(call)
  const filename = composeName(nameInPath(call))
  const act = { event: 'delete', protocol: 'http', filename: directory.nameInOrganization(filename) } as const
  await mappingRefusals(call.deps, () =>
    loggedFileAct(clientLog(call), act, () => directory.delete(filename)),
  )
}

/** A name with its folder may be one segment of the path, with an encoded slash, or two. */
const nameInPath = ({ params: { folder, filename = '' } }: Pick<RequestCall, 'params'>): string =>
  joinName(folder ?? null, filename)

function openDirectory({ deps, caller, organizationId }: RequestCall): UploadDirectory {
  const { uploads, settings, log } = deps
  const limits = uploadLimits(settings)
  return new UploadDirectory({ uploads, limits, organizationId, folder: caller.uploadsFolder, log })
}

async function mappingRefusals<T>({ settings }: ControlPlane, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof UploadRefused ? toRequestError(error, settings) : error
  }
}
