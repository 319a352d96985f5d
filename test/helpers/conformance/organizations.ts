import type { Rows } from './row.ts'

export const organizationRows: Rows = {
  listOrganizations: { good: () => ({ query: '?page=0&per_page=10' }) },
  getOrganization: { good: ({ organizationId }) => ({ params: { id: organizationId } }) },
  createOrganization: {
    good: ({ unique }) => ({
      body: {
        organization: { name: unique('Organization'), time_zone_name: 'Asia/Kolkata', subscriber_limit: 5 },
      },
    }),
    failures: {
      'a blank name': () => ({
        sent: { body: { organization: { name: ' ' } } },
        code: 'validation_failed',
        message: /^name must not be blank$/,
      }),
      'a zone that is none': () => ({
        sent: { body: { organization: { name: 'x', time_zone_name: 'Mars/Olympus' } } },
        code: 'validation_failed',
        message: /^time_zone_name must be the IANA name/,
      }),
    },
  },
  updateOrganization: {
    good: ({ organizationId }) => ({
      params: { id: organizationId },
      body: { organization: { subscriber_limit: null } },
    }),
    failures: {
      'a blank name': ({ organizationId }) => ({
        sent: { params: { id: organizationId }, body: { organization: { name: '' } } },
        code: 'validation_failed',
        message: /^name must not be blank$/,
      }),
      'a zone that is none': ({ organizationId }) => ({
        sent: { params: { id: organizationId }, body: { organization: { time_zone_name: 'Mars' } } },
        code: 'validation_failed',
        message: /^time_zone_name must be the IANA name/,
      }),
    },
  },
}
