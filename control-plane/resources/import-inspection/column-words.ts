import { builtInColumns, type BuiltInColumn } from '../../../shared/contract/schemas/import.ts'
import { normalizeText } from '../../../shared/values/normalized-text.ts'

/**
 * Names of columns in common files: exports of other mailing services and of spreadsheets, in several languages. They
 * are in the form of `plainName`: lower case, without accents, blanks and punctuation.
 */
const builtInWords: Record<BuiltInColumn, readonly string[]> = {
  email:
    words(`email emails mail emailaddress emailaddresses mailaddress emailaddr emailid useremail contactemail
    subscriberemail primaryemail workemail businessemail emailvalue email1 emailaddress1 emailprimary
    emailadresse mailadresse emailadressen elektronischepost
    correo correoelectronico correoe direcciondecorreo direcciondecorreoelectronico direccionemail
    courriel adresseemail adressemail adressecourriel adresseelectronique couriel
    indirizzoemail indirizzomail indirizzodiposta postaelettronica indirizzodipostaelettronica
    enderecodeemail enderecoemail correioeletronico correioelectronico
    emailadres mailadres epost epostadress epostadresse epostadres eposta epostaadresi eposti sahkoposti sahkopostiosoite
    adresemail adresmail adrespocztyelektronicznej emailcim emailova emailovaadresa adresadeemail
    почта электроннаяпочта адресэлектроннойпочты емейл имейл email地址 邮箱 电子邮件 电子邮箱 邮件地址 電子郵件 メール メールアドレス 이메일 이메일주소`),
  status: words(
    `status subscriberstatus substatus subscriptionstatus memberstatus estatus statut stato stav`,
  ),
  email_format: words(
    `emailformat format mailformat emailtype preferredformat htmlortext emailtypepreferred`,
  ),
  subscribe_time:
    words(`subscribetime subscribedat subscribed subscribeddate subscribedate subscriptiondate datesubscribed
    optintime optindate optinat signuptime signupdate signedupat signupat datejoined joined joindate joinedat dateadded
    addedat added createdat created creationdate createddate creationtime registeredat registrationdate registered
    anmeldedatum angemeldetam eintragungsdatum datedinscription inscritle fechadealta fechaderegistro fechadesuscripcion
    datadiiscrizione dataiscrizione datadeinscricao datadeinscripcion inschrijfdatum`),
  subscribe_ip:
    words(`subscribeip subscribedip optinip signupip ip ipaddress ipaddr subscriptionip registrationip
    ipadresse adresseip direccionip indirizzoip joinip createdip sourceip`),
  remove_time:
    words(`removetime removedat removed removaldate unsubscribetime unsubscribedat unsubscribed unsubscribedate
    unsubscribeddate dateunsubscribed optouttime optoutdate optoutat unsubtime unsubdate abmeldedatum abgemeldetam
    datededesinscription desinscritle fechadebaja datadicancellazione datadisiscrizione uitschrijfdatum`),
  remove_ip: words(`removeip removedip unsubscribeip unsubip optoutip`),
  confirmed: words(
    `confirmed isconfirmed doubleoptin doi verified emailverified bestatigt confirme confirmado confermato`,
  ),
  confirm_time:
    words(`confirmtime confirmedat confirmdate confirmationtime confirmationdate doubleoptindate doitime doidate
    verifiedat bestatigtam confirmele fechadeconfirmacion`),
}

/** Groups of synonymous names of custom fields. */
const fieldWords: readonly (readonly string[])[] = [
  words(`firstname fname first givenname forename prename christianname vorname prenom nombre nome primeironome voornaam
    fornavn fornamn imie jmeno etunimi keresztnev имя 名 名字 名前`),
  words(`lastname lname last surname familyname secondname nachname zuname familienname nomdefamille apellido apellidos
    cognome sobrenome apelido achternaam etternavn efternamn efternavn nazwisko prijmeni sukunimi vezeteknev фамилия 姓`),
  words(`name fullname contactname displayname customername subscribername nom nomcomplet nombrecompleto nomecompleto
    nominativo namn navn naam nimi imieinazwisko vollstandigername 姓名 氏名 полноеимя`),
  words(`title salutation anrede titel titre titulo titolo civilite prefix tratamiento`),
  words(`company companyname organization organisation organizationname account accountname employer firma unternehmen
    societe entreprise empresa compania azienda societa bedrijf foretag 公司 会社 компания`),
  words(`jobtitle position role function funktion poste cargo puesto ruolo beruf functie`),
  words(`phone phonenumber telephone tel telefon telefonnummer telefono telefone telefoonnummer mobile mobilephone mobil
    cell cellphone handy handynummer movil portable celular cellulare puhelin 电话 電話 телефон`),
  words(`street streetaddress address address1 addressline1 strasse strae adresse rue direccion calle indirizzo via
    endereco adres straat gatuadress 地址 住所 адрес`),
  words(
    `city town locality ort stadt ville ciudad citta cidade stad plaats by miasto mesto kaupunki 城市 市 город`,
  ),
  words(`zip zipcode postcode postalcode plz postleitzahl codepostal codigopostal cp cap cep postnummer kodpocztowy psc
    邮编 郵便番号 индекс`),
  words(`country countryname land pays pais paese nazione kraj zeme maa 国家 国 страна`),
  words(`region province county bundesland provincia provincie region departement estadoprovincia`),
  words(`language lang locale sprache langue idioma lingua taal sprak jezyk jazyk kieli 语言 言語 язык`),
  words(`birthday birthdate dateofbirth dob bday born geburtstag geburtsdatum anniversaire datedenaissance cumpleanos
    fechadenacimiento compleanno datadinascita aniversario datadenascimento geboortedatum fodelsedag fodselsdag
    dataurodzenia datumnarozeni syntymapaiva 生日 誕生日 деньрождения датарождения`),
  words(`age alter edad eta idade leeftijd`),
  words(
    `gender sex geschlecht sexe sexo sesso genero genere geslacht kon plec pohlavi sukupuoli 性别 性別 пол`,
  ),
  words(`website url homepage web webseite siteweb sitioweb sitoweb www`),
  words(`customernumber customerid customerno clientid clientnumber kundennummer numeroclient numerodecliente codicecliente
    externalid memberid membernumber id`),
  words(`tags tag labels etiquetas etiquettes interests interessen intereses interets`),
  words(`notes note comment comments bemerkung kommentar remarks notas remarques`),
  words(`plan subscriptionplan tier tarif tarifa abo`),
]

function words(text: string): readonly string[] {
  return text.trim().split(/\s+/)
}

/** Longer headers are cut: a name of a column is never longer. */
const maxNameUnits = 200

/** A name in lower case, without accents, blanks and punctuation. */
export function plainName(text: string): string {
  return normalizeText(text.slice(0, maxNameUnits), 'NFKD')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
}

const builtInByWord = new Map<string, BuiltInColumn>(
  builtInColumns.flatMap((name) =>
    [name, ...builtInWords[name]].map((word) => [plainName(word), name] as const),
  ),
)
const groupByWord = new Map<string, number>(
  fieldWords.flatMap((group, i) => group.map((word) => [plainName(word), i] as const)),
)

/** The built-in column with this name or a synonym of it. */
export const builtInNamed = (header: string): BuiltInColumn | undefined =>
  builtInByWord.get(plainName(header))

/** Whether two names are synonyms, such as Surname and Nachname. */
export function meanTheSame(a: string, b: string): boolean {
  const group = groupByWord.get(plainName(a))
  return group !== undefined && group === groupByWord.get(plainName(b))
}

/** Whether the text is a plausible name of a column. */
export function isColumnWord(text: string, fieldNames: readonly string[]): boolean {
  const plain = plainName(text)
  return (
    plain !== '' &&
    (builtInByWord.has(plain) ||
      groupByWord.has(plain) ||
      fieldNames.some((name) => plainName(name) === plain))
  )
}

/** Whether a header has a word for email among others, such as "Primary e-mail (work)". */
export const speaksOfEmail = (header: string): boolean =>
  /(^|[^\p{L}])(e-?mails?|courriel|correo)([^\p{L}]|$)/iu.test(header.slice(0, maxNameUnits))
