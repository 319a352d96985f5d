import { controlPlaneOrigin } from '../service.ts'
import { HttpUpload } from '../http-upload.ts'
import {
  badContentRange,
  beyondEnd,
  isFolder,
  isUploadedElsewhere,
  noSuchFolder,
  overQuota,
  wrongBodyLength,
  wrongLength,
  wrongStart,
} from '../../../control-plane/resources/uploads/refusals.ts'
import { notAFile } from '../../../control-plane/api/body/body-pieces.ts'
import { RequestError } from '../../../control-plane/api/request-error.ts'
import type { Refused, Row, Rows } from './row.ts'
import { partnerFolder, type World } from './world.ts'

const octets = { 'content-type': 'application/octet-stream' }
const content = 'email\nann@example.com\n'

/** The parameters of a file's path, in the root or in the partner's folder. */
type Place = (filename: string) => Record<string, string>
const inRoot: Place = (filename) => ({ filename })
const inFolder: Place = (filename) => ({ folder: partnerFolder, filename })

const pathOf = ({ folder, filename = '' }: Record<string, string>): string =>
  folder === undefined ? filename : `${folder}/${filename}`

/** Names that no file has, among them some that none can have. */
const absent = ['999999999', 'absent.csv', 'a/b', 'a\\b', 'a\nb', 'x'.repeat(201)]
const absentNames = {
  folder: absent.map((value) => ({ value, code: 'not_found' })),
  filename: absent.map((value) => ({ value, code: 'not_found' })),
}

/** The contract's part beyond the API, section 8: refusals have the status that they mean. */
const statuses = { invalid_request: 400, not_found: 404, validation_failed: 422 }

function rows(suffix: string, place: Place): Rows {
  const send = (world: World, filename: string, body: string, headers: Record<string, string>) =>
    world.service.call('PUT', `/uploads/${encodeURIComponent(pathOf(place(filename)))}`, body, {
      key: world.admin,
      headers: { ...octets, ...headers },
    })

  /** Puts a file into the directory of the world's organization; resolves to its name. */
  const uploaded = async (world: World): Promise<string> => {
    const name = `${world.unique('file')}.csv`
    await send(world, name, content, {})
    return name
  }

  const named = async (world: World) => ({ params: place(await uploaded(world)) })

  /** Begins an upload of 50 bytes; resolves to its name when 5 bytes are there. */
  const begun = async (world: World): Promise<string> => {
    const filename = `${world.unique('part')}.csv`
    await send(world, filename, 'email', { 'content-range': 'bytes 0-4/50' })
    return filename
  }

  /** A request for a name that another one is uploading. */
  const whileUploaded = async (world: World, body?: string): Promise<Refused> => {
    const filename = `${world.unique('busy')}.csv`
    const upload = new HttpUpload(controlPlaneOrigin(world.service), pathOf(place(filename)), {
      key: world.admin,
      headers: { 'content-length': 10, expect: '100-continue' },
    })
    await new Promise((resolve) => upload.request.once('continue', resolve))
    return {
      sent: { params: place(filename), headers: octets, ...(body === undefined ? {} : { body }) },
      refused: isUploadedElsewhere(pathOf(place(filename))),
      after: () => upload.end('0123456789'),
    }
  }

  /** A body with a faulty Content-Range. */
  const withRange = (range: string, refused: RequestError) => (world: World) => ({
    sent: {
      params: place(`${world.unique('range')}.csv`),
      headers: { ...octets, 'content-range': range },
      body: content,
    },
    refused,
  })

  const putRow: Row = {
    isOwnOnly: true,
    statuses,
    good: (world) => ({ params: place(`${world.unique('new')}.csv`), headers: octets, body: content }),
    otherParams: {
      folder: absent.map((value) => ({ value, code: 'validation_failed' })),
      filename: [
        { value: '999999998', code: null },
        ...absent.slice(2).map((value) => ({ value, code: 'validation_failed' })),
      ],
    },
    elsewhere: [/^507 /],
    refusals: [
      withRange('bytes 0-9', badContentRange()),
      withRange('bytes 0-9/10', wrongLength(22, 10)),
      async (world) => {
        const filename = await begun(world)
        return {
          sent: {
            params: place(filename),
            headers: { ...octets, 'content-range': 'bytes 0-21/50' },
            body: content,
          },
          refused: wrongStart(
            pathOf(place(filename)),
            'has an unfinished upload of 5 bytes, so it resumes at byte 5, not 0',
          ),
        }
      },
      (world) => ({
        sent: {
          params: place(`${world.unique('short')}.csv`),
          headers: { ...octets, 'content-range': 'bytes 0-99/100' },
          body: new ReadableStream({
            start(controller) {
              controller.enqueue(Buffer.from('short'))
              controller.close()
            },
          }),
        },
        refused: wrongBodyLength('fewer', 5, 100),
      }),
      (world) => whileUploaded(world, content),
      (world) => ({
        sent: {
          params: place(`${world.unique('form')}.csv`),
          headers: { 'content-type': 'multipart/form-data; boundary=x' },
          body: content,
        },
        refused: new RequestError('invalid_request', notAFile, { status: 415 }),
      }),
      (world) => ({
        sent: {
          params: place(`${world.unique('large')}.csv`),
          headers: octets,
          body: 'x'.repeat(1_100_000),
        },
        refused: overQuota({ UPLOAD_MAX_FILES: 10_000, UPLOAD_MAX_MB: 1 }),
        settings: { UPLOAD_MAX_MB: '1' },
      }),
      () => ({
        sent: {
          params: suffix === '' ? { filename: 'absent/a.csv' } : { folder: 'absent', filename: 'a.csv' },
          headers: octets,
          body: content,
        },
        refused: noSuchFolder('absent/a.csv'),
      }),
      ...(suffix === ''
        ? [
            () => ({
              sent: { params: { filename: partnerFolder }, headers: octets, body: content },
              refused: isFolder(partnerFolder),
            }),
          ]
        : []),
    ],
  }

  return {
    [`putUpload${suffix}`]: putRow,
    [`getUpload${suffix}`]: {
      isOwnOnly: true,
      statuses,
      good: named,
      otherParams: absentNames,
      refusals: [
        async (world) => {
          const filename = await uploaded(world)
          return {
            sent: { params: place(filename), headers: { range: 'bytes=22-' } },
            refused: beyondEnd(pathOf(place(filename)), 22),
          }
        },
      ],
    },
    [`deleteUpload${suffix}`]: {
      isOwnOnly: true,
      statuses,
      good: named,
      otherParams: absentNames,
      refusals: [(world) => whileUploaded(world)],
    },
  }
}

export const uploadRows: Rows = {
  listUploads: {
    good: async (world) => {
      await world.service.call(
        'PUT',
        `/uploads/${world.unique('file')}.csv`.replaceAll(' ', '%20'),
        content,
        {
          key: world.admin,
          headers: octets,
        },
      )
      return {}
    },
  },
  ...rows('', inRoot),
  ...rows('InFolder', inFolder),
}
