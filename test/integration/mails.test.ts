import './mails/campaign-templates.ts'
import './mails/autoresponders.ts'
import './mails/trigger-autoresponders.ts'
