import t from 'tap'
import { startService } from '../../helpers/service.ts'

/** What all files of this folder work with; each makes lists and organizations of its own in it. */
export const service = await startService(t, ['control-plane', 'engine'])
