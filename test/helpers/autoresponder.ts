import {
  autoresponderDefaults,
  type AutoresponderDocument,
} from '../../shared/contract/schemas/autoresponder.ts'

type Fields = Pick<AutoresponderDocument, '_id' | 'mailing_list_id' | 'name'> & Partial<AutoresponderDocument>

/** An autoresponder's document as the API makes it from its defaults. */
export const autoresponder = (fields: Fields): AutoresponderDocument => ({
  organization_id: 1,
  name_key: fields.name.toLowerCase(),
  ...autoresponderDefaults,
  content_subject: 'Hello',
  content_text: 'Good to have you.',
  trigger: 'subscription',
  created_at: new Date(),
  ...fields,
})
