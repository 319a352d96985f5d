/** Descriptions of an autoresponder's fields; see control-plane/openapi/field-texts.ts. */
export const autoresponderTexts = {
  'autoresponder.name': 'its name, unique on the list regardless of case',
  paused: 'whether its mails are kept back; default false',
  delay: 'whether its mail is sent at once (immediately, the default) or later (with_delay)',
  delay_amount: 'units of the delay, from 1 to a century; 0 without a delay',
  delay_time: "hour of the day, in the organization's time zone, with days, weeks and months; 0 otherwise",
  delay_unit:
    'minutes and hours are elapsed time; days, weeks and months follow the calendar; null without a delay',
  from_email: 'address of the sender; null for none; required without external delivery settings',
  reply_to: 'address for answers; null for none',
  bounce_email_domain_id: 'domain of the bounce address, stored as given; null for none',
  bounce_email_user_id: 'user of the bounce address, stored as given; null for none',
  url_domain_id: 'domain of the links, stored as given; null for none',
  virtual_mta_id: 'route of the mail, stored as given; 0 is the system default route, null for none',
  use_external_delivery_setting:
    'whether sender and route are configured outside of this service; default true',
  special_sending_rule_id: 'special sending rule, stored as given; null for none',
  special_sending_rule_name: 'name of the special sending rule, as given; null for none',
  segmentation_criteria_id: 'segment of its recipients, stored as given; null for none',
  segmentation_criteria_name: 'name of the segment, as given; null for none',
  track_links: 'whether clicks are to be tracked; default true',
  track_opens: 'whether opens are to be tracked; default true',
  trigger:
    'what it answers: a subscription, a call of the API, or an event of a message of a campaign or of another autoresponder; nonopen and nonclick answer that no open or click came within the delay',
  trigger_autoresponder_to_click_id:
    'of autoresponder_click and autoresponder_nonclick: the autoresponder, of the same organization',
  trigger_autoresponder_to_click_on_any_url: 'whether a click on any URL counts',
  trigger_autoresponder_to_click_urls: 'the URLs that count, each as written in the message',
  trigger_autoresponder_to_open_id:
    'of autoresponder_open and autoresponder_nonopen: the autoresponder, of the same organization',
  trigger_autoresponder_to_send_id: 'of autoresponder_send: the autoresponder, of the same organization',
  trigger_campaign_to_click_id: 'of campaign_click: the campaign, stored as given',
  trigger_campaign_to_click_on_any_url: 'whether a click on any URL counts',
  trigger_campaign_to_click_urls: 'the URLs that count, each as written in the message',
  trigger_campaign_to_open_id: 'of campaign_open: the campaign, stored as given',
  trigger_include_subscribers_from_import:
    'of subscription: whether subscribers that an import adds count; default false',
  trigger_run_on_api: 'of subscription: whether subscribers that a request adds count; default true',
  triggered_on: "the day, in the organization's time zone, of the last reaction queued; null before",
  content_subject: 'subject of the mail; required with content',
  content_format: 'which of content_html and content_text are sent; default both',
  content_html: 'the mail as HTML; null for none',
  content_text: 'the mail as text; null for none',
} as const
