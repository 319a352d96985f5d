import { controlPlaneOrigin } from '../service.ts'
import { HttpUpload } from '../http-upload.ts'
import type { Failure, Row, Rows } from './row.ts'
import type { World } from './world.ts'

const octets = { 'content-type': 'application/octet-stream' }
const content = 'email\nann@example.com\n'

/** Puts a file into the directory of the world's organization; resolves to its name. */
async function uploaded(world: World): Promise<string> {
  const name = `${world.unique('file')}.csv`
  const sent = { key: world.admin, headers: octets }
  await world.service.call('PUT', `/uploads/${encodeURIComponent(name)}`, content, sent)
  return name
}

const named = async (world: World) => ({ params: { filename: await uploaded(world) } })

/** Names that no file has, among them some that none can have. */
const reserved = `.unfinished-${'0'.repeat(16)}-x.csv`
const absent = ['999999999', 'absent.csv', reserved, 'a/b', 'a\\b', 'a\nb', 'x'.repeat(201)]
const absentNames = {
  filename: absent.map((value) => ({ value, code: 'not_found' })),
}

/** The contract's part beyond the API, section 8: refusals have the status that they mean. */
const statuses = { invalid_request: 400, not_found: 404, validation_failed: 422 }

/** A request for a name that another one is uploading. */
async function whileUploaded(world: World, body?: string): Promise<Failure> {
  const filename = `${world.unique('busy')}.csv`
  const upload = new HttpUpload(controlPlaneOrigin(world.service), filename, {
    key: world.admin,
    headers: { 'content-length': 10, expect: '100-continue' },
  })
  await new Promise((resolve) => upload.request.once('continue', resolve))
  return {
    sent: { params: { filename }, headers: octets, ...(body === undefined ? {} : { body }) },
    code: 'validation_failed',
    status: 409,
    message: /is being uploaded by another/,
    after: () => upload.end('0123456789'),
  }
}

/** A body with a faulty Content-Range. */
const withRange = (range: string, message: RegExp) => (world: World) => ({
  sent: {
    params: { filename: `${world.unique('range')}.csv` },
    headers: { ...octets, 'content-range': range },
    body: content,
  },
  code: 'invalid_request',
  message,
})

const putRow: Row = {
  isOwnOnly: true,
  statuses,
  good: (world) => ({
    params: { filename: `${world.unique('new')}.csv` },
    headers: octets,
    body: content,
  }),
  otherParams: {
    filename: [
      { value: '999999998', code: null },
      ...absent.slice(2).map((value) => ({ value, code: 'validation_failed' })),
    ],
  },
  elsewhere: [/^507 /],
  failures: {
    'a Content-Range that is none': withRange('bytes 0-9', /^Content-Range must be/),
    'a range of another length than the body': withRange('bytes 0-9/10', /^Content-Length is 22/),
    'a range that does not continue the unfinished upload': async (world) => {
      const filename = await begun(world)
      return {
        sent: {
          params: { filename },
          headers: { ...octets, 'content-range': 'bytes 0-21/50' },
          body: content,
        },
        code: 'invalid_request',
        status: 416,
        message: /resumes at byte 5, not 0$/,
      }
    },
    'a body that is shorter than its range': (world) => ({
      sent: {
        params: { filename: `${world.unique('short')}.csv` },
        headers: { ...octets, 'content-range': 'bytes 0-99/100' },
        body: new ReadableStream({
          start(controller) {
            controller.enqueue(Buffer.from('short'))
            controller.close()
          },
        }),
      },
      code: 'invalid_request',
      message: /fewer bytes/,
    }),
    'a name that another request uploads': (world) => whileUploaded(world, content),
    'a form': (world) => ({
      sent: {
        params: { filename: `${world.unique('form')}.csv` },
        headers: { 'content-type': 'multipart/form-data; boundary=x' },
        body: content,
      },
      code: 'invalid_request',
      status: 415,
    }),
    'a file for which the directory has no space': (world) => ({
      sent: {
        params: { filename: `${world.unique('large')}.csv` },
        headers: octets,
        body: 'x'.repeat(1_100_000),
      },
      code: 'invalid_request',
      status: 413,
      settings: { UPLOAD_MAX_MB: '1' },
    }),
  },
}

/** Begins an upload of 50 bytes; resolves to its name when 5 bytes are there. */
async function begun(world: World): Promise<string> {
  const filename = `${world.unique('part')}.csv`
  await world.service.call('PUT', `/uploads/${encodeURIComponent(filename)}`, 'email', {
    key: world.admin,
    headers: { ...octets, 'content-range': 'bytes 0-4/50' },
  })
  return filename
}

export const uploadRows: Rows = {
  listUploads: {
    good: async (world) => {
      await uploaded(world)
      return {}
    },
  },
  putUpload: putRow,
  getUpload: {
    isOwnOnly: true,
    statuses,
    good: named,
    otherParams: absentNames,
    failures: {
      'a range behind the end': async (world) => ({
        sent: { ...(await named(world)), headers: { range: 'bytes=22-' } },
        code: 'invalid_request',
        status: 416,
      }),
    },
  },
  deleteUpload: {
    isOwnOnly: true,
    statuses,
    good: named,
    otherParams: absentNames,
    failures: { 'a name that is being uploaded': (world) => whileUploaded(world) },
  },
}
