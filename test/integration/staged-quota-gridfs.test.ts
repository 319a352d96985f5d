// The same quota, with the staging in the database.
process.env['ROLLCALL_TEST_STAGING'] = 'gridfs'
await import('./staged-quota.test.ts')
