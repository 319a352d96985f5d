import t from 'tap'
import { startService } from '../../helpers/service.ts'

/** The service of all files of this folder; each creates lists and organizations of its own in it. */
export const service = await startService(t, ['control-plane', 'engine'], { ENGINE_WORKERS: '2' })
