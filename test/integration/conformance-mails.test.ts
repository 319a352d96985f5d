import t from 'tap'
import { checkEndpoints } from '../helpers/conformance/check-endpoints.ts'

await checkEndpoints(t, 'mails')
