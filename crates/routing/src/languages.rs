//! The verbs of requests in languages other than English: what asks for a proof, a reason or a design, and
//! what asks for work on a text at hand.
//!
//! A few stems a language, so that an instruction is not judged by its length alone. Everything else in
//! these languages is told by structure. A stem whose capital letter does not differ from the small one in
//! a single bit stands twice; stems of scripts without spaces match anywhere in a run.

use domain::tier::Intent;

use crate::lexicon::{Group, Row};

/// Cues of a group, separated by `|`, as in the English lexicon.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    (Group::Proof, None, "beweise*|zeige, dass|zeigen sie, dass|widerlege*|herleiten|leite her|démontre*|prouve*|montre que|montrez que|réfute*|demuestra*|demuestre*|muestra que|demostra*|demonstre*|comprove*|dimostra*|dimostri*|mostra che|mostre que|bewijs|bewijzen|toon aan dat|udowodni*|wykaż*|pokaż, że|докажи*|доказать|покажи, что|покажите, что|опроверг*|доведи*|dokaž*|vyvrať*|bevisa|bevis att|bevise*|todista*|bizonyít*|demonstrează*|demonstrați*|kanıtla*|ispatla*|αποδείξ*|Αποδείξ*|απόδειξ*|Απόδειξ*|buktikan*|chứng minh*|برهن*|أثبت*|اثبت*|הוכח|הוכיח*|सिद्ध*|证明*|證明*|推导*|推導*|証明*|導出*|증명*|유도하*|พิสูจน์*"),
    (Group::Reason, None, "begründe*|erkläre, warum|erklären sie, warum|schritt für schritt|justifie|justifiez|explique pourquoi|expliquez pourquoi|étape par étape|justifica*|justifique*|explica por qué|explique por qué|explique por que|paso a paso|passo a passo|giustifica*|spiega perché|motivera|leg uit waarom|stap voor stap|uzasadni*|wyjaśnij, dlaczego|обоснуй*|обосновать|объясни, почему|объясните, почему|Обоснуй*|Объясни, почему|поясни, чому|обґрунтуй*|zdůvodni*|vysvětli, proč|perustele*|indokol*|justifică*|gerekçelendir*|adım adım|αιτιολόγησ*|Αιτιολόγησ*|jelaskan mengapa|giải thích tại sao|علل*|اشرح لماذا|נמק*|कारण बताइ*|说明理由*|說明理由*|为什么*|理由を*|なぜ*|이유를*|왜|อธิบายว่าทำไม*"),
    (Group::Build, None, "entwirf*|entwerfe*|entwickle*|analysiere*|vergleiche*|bewerte*|optimiere*|löse|berechne*|conçois|concevez|concevoir|élabore*|analysez|comparez|évalue*|optimisez|résous|résolvez|calcule*|diseña*|diseñe*|desarrolla*|desarrolle*|analiza*|analice*|evalúa*|optimiza*|resuelve*|resuelva*|compara|comparar|projete*|desenvolva*|analise*|avalie*|otimize*|resolva*|elabore*|progetta*|sviluppa*|analizza*|confronta*|valuta le|ottimizza*|risolvi*|calcola*|ontwerp*|ontwikkel*|analyseer*|vergelijk*|beoordeel*|optimaliseer*|bereken*|zaprojektuj*|opracuj*|przeanalizuj*|porównaj*|oceń*|zoptymalizuj*|rozwiąż*|oblicz*|спроектируй*|Спроектируй*|разработай*|Разработай*|проанализируй*|сравни*|Сравни*|оптимизируй*|реши уравнение|вычисли*|спроєктуй*|Спроєктуй*|розроби*|Розроби*|проаналізуй*|порівняй*|navrhni*|navrhněte*|analyzuj*|porovnej*|vyřeš*|vypočítej*|utforma|utveckla|analysera*|jämför*|beräkna*|udvikl*|sammenlign*|suunnittele*|analysoi*|vertaa|vertaile*|ratkaise*|laske todennäköisyys|tervezz*|elemezd*|hasonlítsd*|oldd meg|proiectează*|proiectați*|analizează*|analizați*|compară*|comparați*|rezolvă*|tasarla*|geliştir*|analiz et|karşılaştır*|çöz|hesapla*|σχεδίασ*|Σχεδίασ*|ανάλυσε|σύγκριν*|Σύγκριν*|rancang*|analisis*|bandingkan*|selesaikan*|thiết kế*|phân tích*|so sánh*|giải phương trình|صمم*|حلل*|قارن*|احسب*|תכנן*|נתח*|השווה*|डिज़ाइन*|विश्लेषण*|तुलना*|设计*|設計*|分析*|对比*|對比*|比較し*|比較せ*|优化*|優化*|最適化*|求解*|定式化*|实现一个*|實現一個*|実装*|설계*|분석*|비교하*|비교해*|최적화*|구현*|ออกแบบ*|วิเคราะห์*|เปรียบเทียบ*"),
    (Group::Task, Some(Intent::Translate), "übersetz*|traduis*|traduire|traduisez|traduce|traduzca|traduza|traduz|traduci|tradurre|vertaal*|przetłumacz*|переведи*|перевести|переклад*|přelož*|översätt*|oversæt*|oversett*|käännä*|fordítsd*|tradu|traduceți|çevir|çevirin|çevirir misin|μετάφρασ*|μεταφράσ*|Μετάφρασ*|terjemahkan*|dịch sang|dịch câu|ترجم*|תרגם*|תרגמ*|अनुवाद*|翻译*|翻譯*|翻訳*|訳して*|번역*|แปล*"),
    (Group::Task, Some(Intent::Summarise), "fasse zusammen|fass zusammen|fasse den|fasse diesen|fasse die|fasse das|kürze*|résume*|resumen|resuma|riassumi*|riassunto|vat samen|vat deze|samenvatting|streść|streszcz*|podsumuj*|кратко перескажи|перескажи*|резюмируй*|Резюмируй*|сократи*|Сократи*|підсумуй*|стисло*|Стисло*|shrň*|shrnutí|sammanfatta*|opsummer*|oppsummer*|tiivistä*|foglald össze|rezumă*|rezumați*|özetle*|περίληψ*|Περίληψ*|ringkas*|tóm tắt*|لخص*|סכם*|सारांश*|概括*|总结*|總結*|摘要*|要約*|まとめて*|요약*|สรุป*"),
    (Group::Task, Some(Intent::Rewrite), "korrigier*|verbessere die|rechtschreib*|formuliere*|umformulier*|corrige*|orthographe|reformule*|réécri*|ortografía|reescrib*|reescrev*|reescrever|ortografia|correggi*|riscrivi*|riformula*|verbeter*|herschrijf*|popraw*|przeredaguj*|исправь*|исправить|перепиши*|перефразируй*|виправ*|oprav*|přepiš*|rätta*|skriv om|korjaa*|javítsd*|írd át|corectează*|rescrie*|düzelt*|διόρθωσ*|perbaiki*|sửa lỗi*|viết lại*|صحح*|أعد صياغة|תקן*|נסח*|सुधार*|改写*|改寫*|改得*|修改*|纠正*|書き換え*|直して*|고쳐*|바꿔*|แก้ไข*"),
    (Group::Task, Some(Intent::Extract), "sortier*|ordne*|trie les|classe ces|ordena*|metti in ordine|rangschik*|uporządkuj*|posortuj*|отсортируй*|выпиши*|seřaď*|sortera*|järjestä*|rendezd*|sırala*|grupla*|urutkan*|sắp xếp*|رتب*|סדר*|排序*|排列*|整理*|並べ*|정렬*|เรียงลำดับ*"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::classify::Shape;
    use crate::features::measure_with;

    fn groups(text: &str) -> Vec<Group> {
        let mut groups = Vec::new();
        measure_with(text, &Shape::default(), |heard| groups.push(heard.group));
        groups
    }

    #[test]
    fn no_stem_stands_twice_or_is_too_short() {
        let mut seen = BTreeSet::new();
        for text in ROWS.iter().flat_map(|row| row.2.split('|')) {
            assert!(seen.insert(text.trim_end_matches('*')), "twice: {text}");
            assert!(text.find('*').is_none_or(|letters| letters >= 4), "too short: {text}");
        }
    }

    #[test]
    fn verbs_are_found_in_any_language() {
        for (text, group) in [
            ("Beweise den Satz.", Group::Proof),
            ("DÉMONTREZ le théorème", Group::Proof),
            ("Докажите теорему", Group::Proof),
            ("Спроектируйте систему", Group::Build),
            ("Сравните их", Group::Build),
            ("请证明这个命题", Group::Proof),
            ("千万级系统的设计", Group::Build),
            ("この命題を証明してください", Group::Proof),
            ("이 정리를 증명하시오", Group::Proof),
            ("صمم نظاما", Group::Build),
            ("Przetłumacz to", Group::Task),
            ("请把它翻译成英文", Group::Task),
            ("इसका अनुवाद करो", Group::Task),
        ] {
            assert_eq!(groups(text), [group], "{text}");
        }
    }

    #[test]
    fn a_design_in_any_language_is_harder_than_a_stroll() {
        let complexity = |text: &str| {
            let shape = Shape { turns: 1, total_chars: text.len(), tools: 0 };
            crate::classify(text, &shape).complexity
        };
        for (hard, easy) in [
            ("设计一个支持千万用户的消息系统", "描写一个关于春天早晨的小花园"),
            ("Спроектируйте систему очередей", "Прогуляйтесь вечером по городу"),
        ] {
            assert!(complexity(hard) > complexity(easy), "{hard}");
        }
    }
}
