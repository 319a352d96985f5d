import { maxNameUnits, plainName, words } from './plain-name.ts'

/**
 * Headers that say who gets mail, in the exports of common services and in the usual languages. A file with such a
 * column that isn't mapped imports everybody alike, also those who said no.
 */

/** Names of columns with a status. */
export const statusHeaders =
  words(`status subscriberstatus substatus subscriptionstatus memberstatus contactstatus emailstatus
    emailmarketingstatus emailsubscriptionstatus emailsubscriberstatus newsletterstatus optinstatus consentstatus
    emailpermissionstatus marketingstatus marketingcontactstatus mailingstatus subscriptionstate emailmarketingstate
    estatus estado statut stato stav tila durum статус состояние 状态 狀態 状態 ステータス 상태`)

/** Names of columns that say yes to mail. */
export const consentHeaders =
  words(`consent emailconsent marketingconsent emailmarketingconsent gdprconsent consentgiven hasconsent
    acceptsmarketing acceptsemailmarketing acceptsemail acceptsnewsletter emailmarketing marketingemails
    optin emailoptin newsletteroptin marketingoptin emailmarketingoptin optedin isoptedin hasoptedin
    subscribed issubscribed subscribedtoemails subscribedtoemail subscribedtonewsletter
    newsletter newslettersubscription newslettersubscribed newslettersubscriber receivesnewsletter wantsnewsletter
    permission emailpermission marketingpermission receiveemail receiveemails receivesemails gdpr dsgvo rgpd
    einwilligung einwilligungnewsletter newslettereinwilligung werbeeinwilligung werbeerlaubnis zustimmung abonniert
    newsletterabonniert newsletterabo newsletteranmeldung
    consentement abonne inscrit inscritalanewsletter abonnealanewsletter accepteemailmarketing infolettre
    consentimiento suscrito suscripcion boletin aceptamarketing consenso consensomarketing iscritto iscrittonewsletter
    accettamarketing consentimento inscrito assinante aceitamarketing toestemming ingeschreven nieuwsbrief
    zgoda zgodamarketingowa zgodananewsletter subskrypcja souhlas odber odberatel samtycke prenumererar nyhetsbrev
    samtykke nyhedsbrev suostumus uutiskirje izin onay bulten согласие подписан подписка рассылка
    згода підписка розсилка 同意 订阅 訂閱 購読 メルマガ メルマガ購読 동의 수신동의 구독 뉴스레터`)

/** Parts of the names of columns that say who gets mail, or who doesn't. */
const yesParts = [
  ...words(`consent optin optedin subscri newsletter acceptsmarketing acceptsemail emailmarketing
    einwilligung zustimmung abonn suscri iscritt inscrit zgoda souhlas samtyck samtykke suostumus toestemming
    nieuwsbrief nyhetsbrev nyhedsbrev uutiskirje infolettre boletin`),
  ...words('согласи подпис рассылк згода підпис розсилк 同意 订阅 訂閱 購読 メルマガ 동의 구독'),
].map(plainName)
const noParts = [
  ...words(`unsub optout optedout suppress blacklist blocklist donotemail donotmail
    donotcontact nomail emaildisabled cleantime cleaned hardbounce spamreport spamcomplaint complained
    abgemeldet abmeld abbestellt widerruf widerspruch werbesperre mailgesperrt mailsperre desabonn desinscri dadodebaja fechadebaja disiscri descadastr
    uitgeschreven afgemeld wypisan odhlasen avregistrer avmeldt frameldt`),
  ...words('отпис отказ відпис 退订 退訂 解除 配信停止 수신거부 구독취소'),
].map(plainName)

const exactNames = new Set([...statusHeaders, ...consentHeaders].map(plainName))
const exactNoNames = new Set(words('baja fechabaja').map(plainName))

/** Words, and parts of words, that turn a name around that says yes: "no newsletter", "consent withdrawn". */
const negations = new Set(
  words('no not non kein keine keinen nicht pas sans sin sem senza geen niet nie bez ikke inte ei').map(
    plainName,
  ),
)
const negatingParts = words(
  'withdraw revok declin reject refus exclu abgelehnt gesperrt rechaz rifiut recus',
).map(plainName)

/** Endings of names that say when, where or why, but not who. */
const details =
  /(time|timestamp|date|datum|data|dato|(ed|in)(at|on)|ip|id|name|email|number|source|method|plan|tier|type|interval|price)$|^(active|paid)subscription$|^(date|fecha|data|дата)|日時?$|日期$|时间$/
const otherChannels = /sms|phone|whatsapp|push/

/** What a header says of its column: who gets mail (`yes`), who gets none (`no`), or neither. */
export function consentOfHeader(header: string): 'yes' | 'no' | null {
  const name = plainName(header)
  if (otherChannels.test(name)) return null
  if (exactNames.has(name)) return 'yes'
  if (exactNoNames.has(name)) return 'no'
  // Before the other parts: "unsubscribed" has "subscri" in it. A time of leaving says that the subscriber left.
  if (noParts.some((part) => name.includes(part))) return /reason|campaign/.test(name) ? null : 'no'
  if (!yesParts.some((part) => name.includes(part)) || details.test(name)) return null
  return isNegated(header, name) ? 'no' : 'yes'
}

function isNegated(header: string, name: string): boolean {
  // A word also begins with a capital letter behind a small one, as in "notSubscribed".
  const text = header.slice(0, maxNameUnits).replaceAll(/(\p{Ll})(?=\p{Lu})/gu, '$1 ')
  return (
    negatingParts.some((part) => name.includes(part)) ||
    text.split(/[^\p{L}\p{M}]+/u).some((word) => negations.has(plainName(word)))
  )
}
