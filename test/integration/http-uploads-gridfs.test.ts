// The same requests, with the upload directories in the database.
process.env['ROLLCALL_TEST_STAGING'] = 'gridfs'
await import('./http-uploads.test.ts')
