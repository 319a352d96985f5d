// The same partners, with the upload directories in the database.
process.env['ROLLCALL_TEST_STAGING'] = 'gridfs'
await import('./ftp-uploads.test.ts')
