//! Names of other things that are written like telephone numbers: of orders, parts, invoices, files.

/// Words that may stand between such a name and its number, or end the name: "order no.", "Bestell-Nr.".
#[rustfmt::skip]
const NUMBER: &[&str] = &[
    "number", "numbers", "no", "nos", "nr", "num", "n", "nummer", "numero", "número", "numéro", "numer", "номер", "is",
    "was", "id", "code", "ref", "est", "es", "ist", "the",
];
/// Things that are numbered.
#[rustfmt::skip]
const THINGS: &[&str] = &[
    "order", "orders", "po", "purchase", "part", "parts", "item", "article", "file", "invoice", "serial", "model", "sku",
    "lot", "batch", "ticket", "case", "reference", "tracking", "product", "claim", "contract", "isbn", "issn", "ndc", "upc",
    "ean", "gtin", "doc", "document", "receipt", "quote", "catalog", "catalogue", "asset", "shipment", "booking",
    "reservation", "confirmation", "docket",
    // German, Dutch, Scandinavian
    "bestell", "bestellung", "auftrag", "auftrags", "artikel", "teile", "akten", "aktenzeichen", "rechnung", "rechnungs",
    "serien", "vorgang", "vorgangs", "vertrag", "vertrags", "beleg", "chargen", "sendungs", "modell", "material",
    "inventar", "lieferschein", "geschäftszeichen", "bestelling", "bestel", "factuur", "dossier", "serie", "kenmerk", "ordre",
    "faktura", "vare", "ärende", "sak", "sags",
    // French, Spanish, Italian, Portuguese
    "commande", "facture", "référence", "réf", "série", "modèle", "colis", "contrat", "pièce", "devis", "pedido", "factura",
    "artículo", "expediente", "referencia", "modelo", "lote", "pieza", "contrato", "albarán", "ordine", "fattura", "articolo",
    "pratica", "riferimento", "rif", "modello", "lotto", "contratto", "encomenda", "fatura", "artigo", "processo",
    // Polish, Czech, Turkish, Russian
    "zamówienie", "zamówienia", "faktury", "seryjny", "sprawy", "umowy", "objednávka", "objednávky", "sipariş",
    "заказ", "заказа", "цена", "стоимость", "счёт", "счет", "артикул", "дело", "дела", "договор", "договора",
];
/// The same in scripts without spaces, as they end.
#[rustfmt::skip]
const UNSPACED: &[&str] = &[
    "订单", "订单号", "單號", "单号", "编号", "編號", "型号", "型號", "序列号", "序號", "货号", "发票", "注文番号", "品番", "型番",
    "製造番号", "伝票番号", "주문번호", "송장번호", "품번",
];
/// Words that lead to the subject of a text.
const ABOUT: &[&str] = &["about", "to", "for", "regarding", "on", "zur", "zum", "zu", "über"];
/// Words that may stand between the two.
const WHOSE: &[&str] = &["your", "an", "the", "my", "our", "ihrer", "ihrem", "ihre", "der"];
/// So many bytes hold a name.
const REACH: usize = 48;
/// So many words of [`NUMBER`] may end it.
const MAX_WORDS: usize = 3;

/// Whether what stands right before a number names it as one of something else.
pub(super) fn names(before: &str) -> bool {
    let mut lead = tail(before);
    for count in 0..=MAX_WORDS {
        let behind = lead.ends_with([' ', ':']) && lead.trim_end().ends_with(':');
        lead = lead.trim_end_matches(|c: char| " :#.=-_\"'*`(°º№：".contains(c));
        let at = lead.rfind(|c: char| !c.is_alphanumeric());
        let word =
            at.map_or(lead, |at| &lead[at..]).trim_start_matches(|c: char| !c.is_alphanumeric());
        let rest = &lead[..lead.len() - word.len()];
        // "P/N", "S/N"
        if word.eq_ignore_ascii_case("n") && rest.ends_with('/') {
            return true;
        }
        if is_thing(word) {
            return !(count == 0 && behind && is_topic(rest));
        }
        if word.is_empty() || !is(NUMBER, word) {
            return false;
        }
        lead = rest;
    }
    false
}

/// Whether what stands in front of a thing makes it what a text is about, and not what is numbered: "questions about your
/// order: ", "Rückfragen zur Rechnung: ".
fn is_topic(front: &str) -> bool {
    let mut words =
        front.split(|c: char| !c.is_alphanumeric()).rev().filter(|word| !word.is_empty());
    let last = words.next().unwrap_or_default();
    let last = if is(WHOSE, last) { words.next().unwrap_or_default() } else { last };
    front.ends_with(' ') && is(ABOUT, last)
}

/// "Artikelnummer", "订单号"
pub(super) fn is_thing(word: &str) -> bool {
    let lower = word.to_lowercase();
    let compound = ["nummer", "number", "nr", "id"].iter().find_map(|end| lower.strip_suffix(end));
    THINGS.contains(&&*lower)
        || compound.is_some_and(|thing| THINGS.contains(&thing))
        || UNSPACED.iter().any(|end| lower.ends_with(end))
}

fn is(list: &[&str], word: &str) -> bool {
    let lower = word.to_lowercase();
    list.contains(&&*lower)
}

/// The last bytes of a text, on its last line.
fn tail(text: &str) -> &str {
    let near = &text[crate::text::words::ceil(text, text.len().saturating_sub(REACH))..];
    &near[memchr::memrchr(b'\n', near.as_bytes()).map_or(0, |at| at + 1)..]
}
