import { builtInColumns, type BuiltInColumn } from '../../../shared/contract/schemas/import.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { consentHeaders, statusHeaders } from '../../../shared/csv/consent-headers.ts'
import { maxNameUnits, plainName, words } from '../../../shared/csv/plain-name.ts'

/**
 * Names of columns in common files: exports of mailing services, shops, customer databases and address books, and
 * spreadsheets in several languages. `plainName` makes them comparable, so case, accents, blanks and punctuation don't
 * matter.
 */
const builtInWords: Record<BuiltInColumn, readonly string[]> = {
  email:
    words(`email emails mail emailaddress emailaddresses mailaddress emailaddr emailid useremail contactemail
    subscriberemail primaryemail workemail businessemail personalemail customeremail billingemail emailvalue
    email1 email1value email1address emailaddress1 emailprimary emailaddressother subscriber emailadress
    emailadresse mailadresse emailadressen elektronischepost
    correo correoelectronico correoe direcciondecorreo direcciondecorreoelectronico direccionemail
    direcciondeemail mailelectronico courriel mel adresseemail adressemail adressecourriel adresseelectronique
    adressedemessagerie couriel indirizzoemail indirizzomail indirizzodiposta postaelettronica
    indirizzodipostaelettronica enderecodeemail enderecoemail correioeletronico correioelectronico
    emailadres mailadres epost epostadress epostadresse epostadres epostaddress mejl mejladress mailadress
    eposta epostaadresi epostaadresim eposti sposti sahkoposti sahkopostiosoite elpost elpostadresse
    adresemail adresmail adrespocztyelektronicznej pocztaelektroniczna emailcim drotposta
    emailova emailovaadresa mailovaadresa adresadeemail postaelectronica correu correuelectronic
    epastas elpastas epasts tolvupostur netfang surel emel thudientu ηλεκτρονικοταχυδρομειο ηλεκτρονικηδιευθυνση
    почта электроннаяпочта адресэлектроннойпочты эладрес элпочта емейл имейл мейл эмейл
    пошта електроннапошта адресаелектронноїпошти електроннаадреса елпошта імейл електроннапоща поща епошта имејл
    邮箱 电子邮件 电子邮箱 电子邮件地址 邮件 邮件地址 邮箱地址 电邮 电邮地址 电子信箱 電子郵件 電子郵件地址 電子信箱 電郵 電郵地址 郵箱
    メール メールアドレス eメール eメールアドレス 電子メール 電子メールアドレス メアド
    이메일 이메일주소 메일 메일주소 전자우편 전자메일 البريدالالكتروني بريدالكتروني ايميل דואראלקטרוני דואל אימייל ईमेल อีเมล`),
  status: statusHeaders,
  consent: consentHeaders,
  email_format: words(
    `emailformat format mailformat emailtype preferredformat htmlortext emailtypepreferred formatoemail formatemail`,
  ),
  subscribe_time:
    words(`subscribetime subscribedat subscribed subscribeddate subscribedate subscriptiondate datesubscribed
    optintime optindate optinat optintimestamp consenttimestamp signuptime signupdate signedupat signupat
    datejoined joined joindate joineddate joinedat dateadded addedat addedon addedtime added createdat createdon
    createdate created creationdate createddate createdtime datecreated creationtime registeredat registrationdate
    registrationtime registered dateregistered membersince customersince
    anmeldedatum angemeldetam anmeldung eintragungsdatum erstelltam registriertam registrierungsdatum
    datedinscription inscritle datedecreation creele dateajout
    fechadealta fechaderegistro fechadesuscripcion fechadeinscripcion fechadecreacion
    datadiiscrizione dataiscrizione datadicreazione datacreazione iscrittoil
    datadeinscricao datadecadastro datadecriacao datadesubscricao datadinscripcio
    inschrijfdatum aanmelddatum datuminschrijving aangemaaktop datazapisu datarejestracji datautworzenia dataregistracji
    datumregistrace datumprihlaseni vytvoreno tilmeldt tilmeldingsdato oprettet pameldt pameldingsdato opprettet
    registreringsdatum prenumererarsedan skapad rekisteroity liittymispaiva luotu kayittarihi abonelikTarihi
    датаподписки датарегистрации подписан датасоздания датапідписки датареєстрації датастворення
    订阅时间 订阅日期 注册时间 注册日期 创建时间 訂閱日期 註冊日期 登録日 登録日時 作成日 購読開始日 가입일 등록일 구독일`),
  subscribe_ip:
    words(`subscribeip subscribedip optinip signupip ip ipaddress ipaddr subscriptionip registrationip
    ipadresse adresseip direccionip indirizzoip enderecoip ipadres adresip ipadress iposoite ipadresi
    joinip createdip sourceip ipадрес ip地址 ipアドレス ip주소`),
  remove_time:
    words(`removetime removedat removed removaldate unsubscribetime unsubscribedat unsubscribed unsubscribedate
    unsubscribeddate dateunsubscribed optouttime optoutdate optoutat unsubtime unsubdate unsubscribedon
    emailoptouttimestamp cleantime abmeldedatum abgemeldetam abmeldung
    datededesinscription datededesabonnement desinscritle fechadebaja datadicancellazione datadisiscrizione
    datadecancelamento uitschrijfdatum afmelddatum datawypisania datumodhlaseni frameldt frameldingsdato avmeldt
    avregistrerad датаотписки отписан датавідписки 退订时间 退订日期 退訂日期 解除日 購読解除日 구독취소일`),
  remove_ip: words(`removeip removedip unsubscribeip unsubip optoutip`),
  confirmed:
    words(`confirmed isconfirmed doubleoptin doi verified emailverified emailconfirmed bestatigt confirme
    confirmado confermato bevestigd potwierdzony potvrzeno bekraeftet bekreftet bekraftad vahvistettu onaylandi
    подтвержден підтверджено 已确认 已確認 確認済み 확인됨`),
  confirm_time:
    words(`confirmtime confirmedat confirmdate confirmeddate confirmationtime confirmationdate dateconfirmed
    doubleoptindate doubleoptintime doitime doidate verifiedat bestatigtam bestatigungsdatum confirmele
    datedeconfirmation fechadeconfirmacion datadiconferma datadeconfirmacao bevestigingsdatum datapotwierdzenia
    датаподтверждения датапідтвердження 确认时间 確認日時`),
}

/** Groups of synonymous names of custom fields. */
const fieldWords: readonly (readonly string[])[] = [
  words(`firstname fname first givenname forename prename christianname vorname prenom nombre nombredepila nome
    primeironome voornaam roepnaam fornavn fornamn imie jmeno krestnijmeno etunimi keresztnev utonev prenume
    eesnimi ad adi isim billingfirstname shippingfirstname имя імя όνομα 名 名字 名前 下の名前 이름`),
  words(`lastname lname last surname familyname secondname nachname zuname familienname nomdefamille apellido
    apellidos cognome sobrenome apelido ultimonome achternaam familienaam etternavn efternavn efternamn nazwisko
    prijmeni priezvisko sukunimi vezeteknev nume perekonnanimi soyad soyadi billinglastname shippinglastname
    фамилия прізвище επώνυμο 姓 姓氏 苗字 名字苗字 성`),
  words(`name fullname contactname displayname customername subscribername fullnameofcontact nom nomcomplet
    nombrecompleto nombreyapellidos nomecompleto nomeecognome nominativo namn fulltnavn navn naam volledigenaam nimi
    kokonimi imieinazwisko jmenoaprijmeni adsoyad vornamenachname vollstandigername billingname shippingname
    姓名 全名 氏名 お名前 성명 полноеимя фио піб повнеімя`),
  words(`title salutation anrede titel titre titulo titolo civilite prefix nameprefix tratamiento aanhef
    обращение звернення 称呼 敬称`),
  words(`company companyname organization organisation organizationname organization1name account accountname
    employer firma firmenname unternehmen societe entreprise empresa compania azienda societa ragionesociale
    bedrijf bedrijfsnaam foretag firmanavn virksomhed bedrift yritys spolecnost sirket defaultaddresscompany
    billingcompany shippingcompany 公司 公司名称 会社 会社名 회사 회사명 компания организация компанія організація`),
  words(`jobtitle position role function funktion organizationtitle organization1title poste cargo puesto ruolo
    beruf functie stanowisko stilling befattning должность посада 职位 職位 役職 직책`),
  words(`phone phonenumber telephone telephonenumber tel telefon telefonnummer telefonnr telefono telefone
    telefoonnummer mobile mobilephone mobilenumber mobil mobilnummer homephone workphone businessphone phone1value
    defaultaddressphone billingphone cell cellphone handy handynummer movil portable gsm celular cellulare
    puhelin puhelinnumero matkapuhelin numertelefonu cislotelefonu telefonnicislo sms whatsapp
    电话 手机 电话号码 手机号 電話 手機 電話番号 携帯電話 전화 전화번호 휴대폰 телефон номертелефона`),
  words(`street streetaddress address address1 addressline1 mailingstreet homestreet businessstreet address1street
    defaultaddressaddress1 billingaddress1 shippingaddress1 strasse adresse rue direccion calle domicilio
    indirizzo via endereco morada adres straat straatnaam gatuadress gata gate vej ulica ulice katuosoite osoite
    adresa adress 地址 住所 주소 адрес адреса улица`),
  words(`city town locality ort stadt wohnort ville ciudad citta cidade stad plaats woonplaats by poststed
    mailingcity homecity businesscity address1city defaultaddresscity billingcity shippingcity miasto mesto
    kaupunki sehir postort 城市 市 도시 город місто`),
  words(`zip zipcode postcode postalcode plz postleitzahl codepostal codigopostal cp cap cep postnummer postnr
    kodpocztowy psc postinumero postakodu mailingpostalcode mailingzip homepostalcode businesspostalcode
    address1postalcode defaultaddresszip billingzip shippingzip 邮编 邮政编码 郵便番号 우편번호 индекс
    почтовыйиндекс поштовийіндекс`),
  words(`country countryname countryregion land pays pais paese nazione kraj zeme maa ulke mailingcountry
    homecountry businesscountry address1country defaultaddresscountry defaultaddresscountrycode countrycode
    billingcountry shippingcountry 国家 國家 国 국가 страна країна`),
  words(`region state stateregion province provincecode county bundesland provincia provincie departement
    estadoprovincia mailingstate homestate businessstate address1region defaultaddressprovince
    defaultaddressprovincecode billingprovince shippingprovince wojewodztwo kraje 省 都道府県 область регион`),
  words(`language lang locale preferredlanguage sprache langue idioma lingua taal sprak sprog jezyk jazyk kieli dil
    语言 語言 言語 언어 язык мова`),
  words(`birthday birthdate dateofbirth dob bday born geburtstag geburtsdatum anniversaire datedenaissance
    cumpleanos fechadenacimiento compleanno datadinascita aniversario datadenascimento geboortedatum
    verjaardag fodelsedag fodelsedatum fodselsdag fodselsdato dataurodzenia datumnarozeni syntymapaiva
    syntymaaika dogumtarihi 生日 出生日期 誕生日 生年月日 생일 생년월일 деньрождения датарождения датанародження`),
  words(`age alter edad eta idade leeftijd wiek vek alder ika yas 年龄 年齢 나이 возраст вік`),
  words(`gender sex geschlecht sexe sexo sesso genero genere geslacht kon kjonn plec pohlavi sukupuoli cinsiyet
    性别 性別 성별 пол стать`),
  words(
    `website websiteurl website1value url homepage web webpage webseite siteweb sitioweb sitoweb www 网站 сайт`,
  ),
  words(`customernumber customerid customerno clientid clientnumber contactid leadid recordid kundennummer kundennr
    numeroclient numerodecliente codicecliente klantnummer kundnummer numerklienta externalid memberid membernumber
    euid leid id`),
  words(`tags tag labels label groups groupmembership segments etiquetas etiquettes schlagworter interests interessen
    intereses interets 标签 タグ 태그 теги`),
  words(`notes note comment comments bemerkung bemerkungen notiz notizen kommentar remarks notas remarques
    opmerkingen uwagi poznamka 备注 備考 메모 заметки примечание примітки`),
  words(`plan subscriptionplan tier tarif tarifa abo abonnement`),
  words(
    `source leadsource origin originalsource quelle herkunft origine origen fonte bron zrodlo kilde 来源 источник`,
  ),
]

/** A word may suggest several columns: below "subscribed" there may be times, or yes and no. */
const builtInsByWord = new Map<string, BuiltInColumn[]>()
for (const name of builtInColumns)
  for (const word of new Set([name, ...builtInWords[name]].map(plainName)))
    builtInsByWord.set(word, [...(builtInsByWord.get(word) ?? []), name])
const groupByWord = new Map<string, number>(
  fieldWords.flatMap((group, i) => group.map((word) => [plainName(word), i] as const)),
)

/** A name in the forms in which it is compared with others. They are made once, since a file may have 2,000 headers. */
export interface ComparedName {
  text: string
  /** Without case. */
  folded: string
  /** Trimmed, without case, with `_` and `-` as blanks. */
  spaced: string
  /** In the form of `plainName`. */
  plain: string
  /** The built-in columns with this name or a synonym of it. */
  builtIns: readonly BuiltInColumn[]
  /** Names of one group are synonyms, such as Surname and Nachname. */
  group: number | undefined
}

export function comparedName(name: string): ComparedName {
  const text = name.trim().slice(0, maxNameUnits)
  const plain = plainName(text)
  return {
    text,
    folded: comparisonForm(text),
    spaced: comparisonForm(text.replaceAll(/[\s_-]+/gu, ' ').trim()),
    plain,
    builtIns: builtInsByWord.get(plain) ?? [],
    group: groupByWord.get(plain),
  }
}

/** Tells whether a text is a plausible name of a column. */
export function columnWordTest(fieldNames: readonly string[]): (text: string) => boolean {
  const ofFields = new Set(fieldNames.map(plainName))
  return (text) => {
    const plain = plainName(text)
    return plain !== '' && (builtInsByWord.has(plain) || groupByWord.has(plain) || ofFields.has(plain))
  }
}

/** What the names of email columns have in common, in the form of `plainName`. */
const emailStems =
  words(`mail courriel correo correu correio epost eposta sahkopost elpost mejl surel emel thudientu
  почт пошт поща емейл имейл ταχυδρομ 邮箱 邮件 电邮 郵箱 郵件 電郵 信箱 メール メアド 메일 전자우편 بريد ايميل דואר דואל מייל ईमेल อีเมล`).map(
    plainName,
  )

/** Whether a header has a word for email among others, such as "Primary e-mail (work)". */
export const speaksOfEmail = ({ plain }: ComparedName): boolean =>
  emailStems.some((stem) => plain.includes(stem))
