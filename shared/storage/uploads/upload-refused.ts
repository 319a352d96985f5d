import { NameRefused } from '../../store/uploads.ts'

export type UploadRefusal =
  | 'bad_name'
  | 'is_folder'
  | 'no_such_folder'
  | 'no_such_file'
  /** The byte at which to resume is not one at which that is possible. */
  | 'wrong_start'
  | 'locked'
  | 'over_quota'
  | 'disk_full'
  | 'changed'
  | 'taken_over'

/** The upload directory refuses a request. FTP and the API each map the codes to their own replies. */
export class UploadRefused extends Error {
  override readonly name = 'UploadRefused'
  readonly code: UploadRefusal
  readonly filename: string

  /** `message` completes a sentence that begins with the name of the file. */
  constructor(code: UploadRefusal, filename: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    this.filename = filename
  }
}

export const noSuchFile = (name: string) => new UploadRefused('no_such_file', name, 'no such file')

export const isUploadedElsewhere = (name: string) =>
  new UploadRefused('locked', name, 'another session is uploading this file; try again later')

const nameRefusals = {
  is_folder: 'a folder has this name; choose another one',
  no_such_folder: 'there is no such folder; one is there while an API key has it or a file lies in it',
}

/** Throws UploadRefused where the work throws NameRefused. */
export async function refuseName<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof NameRefused)) throw error
    throw new UploadRefused(error.refusal, name, nameRefusals[error.refusal])
  }
}
