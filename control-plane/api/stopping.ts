import { clock } from '../../shared/runtime/clock.ts'

/** The reason with which `ControlPlane.stopping` is aborted. A request that it ends is answered with 503. */
export class Stopping extends Error {
  override readonly name = 'Stopping'
  /** When the signal was aborted, by clock.monotonicMs. */
  readonly at = clock.monotonicMs()

  constructor() {
    super('the service is stopping and did not do this: send the request again')
  }
}
