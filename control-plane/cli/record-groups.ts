import { Option } from 'commander'
import { roles, userRoles } from '../../shared/contract/schemas/api-key.ts'
import { fieldTypes } from '../../shared/contract/schemas/custom-field.ts'
import { chooseRole, showKey } from './commands/keys.ts'
import { readPassword, type RecordView } from './commands/records.ts'
import type { Session } from './session.ts'
import { listOption, positiveInteger, wholeNumber } from './option-values.ts'
import type { Terminal } from './terminal.ts'

/** The values of the commands' options. Each command has some of them. */
export interface RecordOptions {
  json?: true
  name?: string
  /** An id or a name; an id where it is used. */
  list?: string
  org?: number
  role?: string
  uploads?: true
  folder?: string
  timeZone?: string
  subscriberLimit?: number
  hasFormat?: true
  hasConfirmed?: true
  type?: string
  required?: true
  option?: string[]
  default?: string
  email?: string
  fullName?: string
  passwordStdin?: true
  yes?: true
}

type Body = Record<string, Record<string, unknown>>

export interface RecordCommand {
  description: string
  options: Option[]
  examples: string[]
  /** The path of the API that the command calls. */
  path: (options: RecordOptions) => string
}

/**
 * Commands that create, list and delete records of one kind. They are written by hand and not made from the endpoints
 * (docs/decisions/209-no-crud.md): loading those costs more than twice the CPU time of a command, and flags such as
 * --password-stdin or a list's name in place of its id aren't fields of a body.
 */
interface RecordGroup {
  name: string
  description: string
  create: RecordCommand & {
    body: (options: RecordOptions, terminal: Terminal) => Body | Promise<Body>
    /** Prints the record for people, where that is more than its fields. */
    show?: (session: Session, record: RecordView) => Promise<void>
  }
  list: RecordCommand & { columns: string[] }
  /** Deletes a record, which is given by its id or its name; on a terminal the question is asked first. */
  delete?: RecordCommand & { question: (record: string) => string }
}

const option = (flags: string, description: string) => new Option(flags, description)
const required = (flags: string, description: string) => option(flags, description).makeOptionMandatory()
const organizationOption = option('--org <id>', 'the organization, for system admins').argParser(
  positiveInteger,
)
const ofList = listOption('--list <list>', 'the mailing list, by id or name').makeOptionMandatory()
const role = option('--role <role>', `one of ${roles.join(', ')}`)

const inOrganization =
  (path: string) =>
  ({ org }: RecordOptions): string =>
    org === undefined ? path : `/organizations/${org}${path}`
const customFields = ({ list }: RecordOptions): string => `/mailing_lists/${list}/custom_fields`

export const recordGroups: RecordGroup[] = [
  {
    name: 'org',
    description: 'create and list organizations',
    create: {
      description: 'create an organization',
      options: [
        required('--name <name>', 'its name'),
        option('--time-zone <zone>', 'its IANA time zone, by default UTC'),
        option('--subscriber-limit <number>', 'maximum of active subscribers').argParser(wholeNumber),
      ],
      examples: ['rollcall org create --name Acme --time-zone Europe/Berlin'],
      path: () => '/organizations',
      body: ({ name, timeZone: time_zone_name, subscriberLimit: subscriber_limit }) => ({
        organization: { name, time_zone_name, subscriber_limit },
      }),
    },
    list: {
      description: 'list the organizations',
      options: [],
      examples: ['rollcall org list'],
      path: () => '/organizations',
      columns: ['id', 'name', 'time_zone_name', 'subscriber_limit'],
    },
  },
  {
    name: 'list',
    description: 'create and list mailing lists',
    create: {
      description: 'create a mailing list',
      options: [
        required('--name <name>', 'its name'),
        option('--has-format', 'subscribers have an email format'),
        option('--has-confirmed', 'subscribers are confirmed or not'),
        organizationOption,
      ],
      examples: ['rollcall list create --name News --has-confirmed'],
      path: () => '/mailing_lists',
      body: ({ name, hasFormat: has_format, hasConfirmed: has_confirmed, org: organization_id }) => ({
        mailing_list: { name, has_format, has_confirmed, organization_id },
      }),
    },
    list: {
      description: 'list the mailing lists',
      options: [organizationOption],
      examples: ['rollcall list list', 'rollcall list list --org 2 --json'],
      path: inOrganization('/mailing_lists'),
      columns: ['id', 'name', 'has_format', 'has_confirmed'],
    },
  },
  {
    name: 'field',
    description: 'create, list and delete custom fields of a mailing list',
    create: {
      description: 'create a custom field',
      options: [
        ofList,
        required('--name <name>', 'its name'),
        required('--type <type>', `one of ${fieldTypes.join(', ')}`),
        option('--required', 'every subscriber must have a value'),
        option('--option <name>', 'an option of a select type; repeat it for each option').argParser(
          (name: string, names: string[] | undefined) => [...(names ?? []), name],
        ),
        option('--default <value>', 'value of new subscribers without one'),
      ],
      examples: [
        "rollcall field create --list 1 --name 'First name' --type text",
        'rollcall field create --list 1 --name Plan --type select_single_dropdown --option Free --option Gold --default Free',
      ],
      path: customFields,
      body: ({ name, type: field_type, required, option: options, default: value }) => ({
        custom_field: { name, field_type, required, options, default: value },
      }),
    },
    list: {
      description: 'list the custom fields',
      options: [ofList],
      examples: ['rollcall field list --list 1', 'rollcall field list --list News'],
      path: customFields,
      columns: ['id', 'name', 'field_type', 'required', 'options', 'default'],
    },
    delete: {
      description: 'delete a custom field, with its values of all subscribers',
      options: [ofList, option('-y, --yes', 'do not ask for confirmation')],
      question: (field) => `Delete the field ${field} with its values of all subscribers?`,
      examples: ["rollcall field delete 'First name' --list News", 'rollcall field delete 12 --list 1'],
      path: customFields,
    },
  },
  {
    name: 'key',
    description: 'create and list API keys',
    create: {
      description: 'create an API key; it is shown only once',
      options: [
        required('--name <name>', 'what it is for'),
        role,
        option('--uploads', 'a key for a partner, who sends files and does nothing else (the role uploads)'),
        option('--folder <folder>', 'the only folder of the upload directory that the partner sees'),
        organizationOption,
      ],
      examples: [
        'rollcall key create --name nightly --role organization_admin',
        'rollcall key create --name acme --uploads --folder acme',
        'rollcall key create --name acme --role standard --org 2 --json',
      ],
      path: inOrganization('/api_keys'),
      body: async (options, terminal) => ({
        api_key: {
          ...{ name: options.name, role: await chooseRole(options, terminal) },
          uploads_folder: options.folder,
        },
      }),
      show: showKey,
    },
    list: {
      description: 'list the API keys',
      options: [organizationOption],
      examples: ['rollcall key list'],
      path: inOrganization('/api_keys'),
      columns: ['id', 'organization_id', 'name', 'role', 'active', 'user_id', 'uploads_folder'],
    },
  },
  {
    name: 'user',
    description: 'create and list users',
    create: {
      description: 'create a user; the password is asked for on the terminal',
      options: [
        required('--email <email>', 'the email address'),
        required('--full-name <name>', 'first and last name'),
        option('--role <role>', `one of ${userRoles.join(', ')}`).default('standard'),
        option('--password-stdin', 'read the password from standard input'),
        organizationOption,
      ],
      examples: [
        "rollcall user create --email ann@example.com --full-name 'Ann Doe' --role organization_admin",
        "pass show ann | rollcall user create --email ann@example.com --full-name 'Ann Doe' --password-stdin",
      ],
      path: () => '/users',
      async body({ email, fullName: full_name, role, org: organization_id, passwordStdin }, terminal) {
        const password = await readPassword(terminal, passwordStdin === true)
        const user = { email, full_name, role, active: true, organization_id }
        return { user: { ...user, password1: password, password2: password } }
      },
    },
    list: {
      description: 'list the users',
      options: [organizationOption],
      examples: ['rollcall user list --json'],
      path: inOrganization('/users'),
      columns: ['id', 'full_name', 'email', 'role', 'active'],
    },
  },
]
