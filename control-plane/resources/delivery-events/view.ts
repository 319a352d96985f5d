import type { z } from 'zod'
import type { RecordResult } from './record.ts'
import type { deliveryEventsView } from './schemas.ts'

/** `inaccessible`: how many events were left out before recording; they count as ignored. */
export const toView = (
  { accepted, duplicates, ignored }: Omit<RecordResult, 'triggered'>,
  inaccessible: number,
): z.infer<typeof deliveryEventsView> => ({ accepted, duplicates, ignored: ignored + inaccessible })
