import t from 'tap'
import { AddressGuard } from '../../../../shared/net/address-guard.ts'

const guard = (allow: string[] = [], answers: string[] = []) =>
  new AddressGuard(allow, async () => answers.map((address) => ({ address, family: 4 })))

t.test('addresses that are not public are refused in every spelling', async (t) => {
  const literals = [
    ...['127.0.0.1', '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '0.0.0.0', '10.1.2.3', '172.16.0.1'],
    ...[
      '192.168.0.1',
      '100.64.0.1',
      '169.254.169.254',
      '168.63.129.16',
      '198.18.0.1',
      '192.0.0.8',
      '224.0.0.1',
    ],
    ...['240.0.0.1', '255.255.255.255', '192.88.99.1', '203.0.113.1', '192.0.2.1', '198.51.100.1'],
    ...[
      '[::]',
      '[::1]',
      '[::7f00:1]',
      '[::ffff:7f00:1]',
      '[::ffff:0:7f00:1]',
      '[64:ff9b::7f00:1]',
      '[fec0::1]',
    ],
    ...[
      '[64:ff9b:1::7f00:1]',
      '[2002:7f00:1::]',
      '[2001::1]',
      '[2001:db8::1]',
      '[3fff::1]',
      '[fe80::1]',
      '[fd00::1]',
    ],
  ]
  for (const literal of literals) t.match(guard().literalProblem(literal), /is no public address/, literal)
  for (const literal of ['1.1.1.1', '[2606:4700::1111]', 'example.com'])
    t.equal(guard().literalProblem(literal), null, literal)
})

t.test('the host of a URL has one spelling for all schemes', async (t) => {
  for (const scheme of ['http', 'https', 'ftp', 'ftps'])
    for (const host of ['2130706433', '0x7f.1', '%31%32%37.0.0.1'])
      t.equal(AddressGuard.lookupHost(new URL(`${scheme}://${host}:7/x`)), '127.0.0.1', `${scheme} ${host}`)
  t.equal(AddressGuard.lookupHost(new URL('ftps://u:p@EXAMPLE.com/x')), 'example.com')
  t.equal(AddressGuard.lookupHost(new URL('https://[::1]/x')), '::1')
})

t.test('one refused address among the answers refuses the name', async (t) => {
  await t.rejects(guard([], ['1.1.1.1', '10.0.0.1']).resolve('a.test'), { message: /is no public address/ })
  t.same(await guard([], ['1.1.1.1']).resolve('a.test'), [{ address: '1.1.1.1', family: 4 }])
})

t.test('the operator allows networks, addresses and names', async (t) => {
  t.equal(guard(['10.0.0.0/8']).literalProblem('10.2.3.4'), null)
  t.equal(guard(['10.0.0.1']).literalProblem('[::ffff:10.0.0.1]'), null)
  t.match(guard(['10.0.0.0/8']).literalProblem('11.0.0.1') ?? 'public', /public/)
  t.same(await guard(['Files.Intranet'], ['10.9.9.9']).resolve('files.intranet.'), [
    { address: '10.9.9.9', family: 4 },
  ])
  await t.rejects(guard(['files.intranet'], ['10.9.9.9']).resolve('other.intranet'), {
    message: /is no public address/,
  })
})
