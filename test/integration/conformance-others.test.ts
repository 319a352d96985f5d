import t from 'tap'
import { endpoints } from '../../control-plane/endpoints.ts'
import { conformanceRows } from '../helpers/conformance-rows.ts'
import { checkEndpoints } from '../helpers/conformance/check-endpoints.ts'

await checkEndpoints(t, 'others')

t.test('every endpoint has a row, and every row an endpoint', (t) => {
  t.same(Object.keys(conformanceRows).sort(), endpoints.map(({ operationId }) => operationId).sort())
  t.end()
})
