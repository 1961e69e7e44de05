//! The words injections are made of, by what they do, in the main languages of Europe and some of Asia.
//!
//! A word alone proves nothing; [`crate::injection::rules`] lists which of them together do. Entries are beginnings of words;
//! `$` behind: the word ends there; `~` in front: it may stand inside a word.

/// Puts something aside.
pub(crate) const OVERRIDE: u64 = 1;
/// The text that came before.
pub(crate) const PRIOR: u64 = 1 << 1;
/// The instructions that a model was given.
pub(crate) const ORDERS: u64 = 1 << 2;
/// Asks to bring something to light.
pub(crate) const REVEAL: u64 = 1 << 3;
/// The instructions of the model by a name of their own.
pub(crate) const SYSTEM: u64 = 1 << 4;
/// Belonging to the model.
pub(crate) const YOUR: u64 = 1 << 5;
/// Something to be kept secret.
pub(crate) const SECRET: u64 = 1 << 6;
/// Turns the model into someone else.
pub(crate) const PERSONA: u64 = 1 << 7;
/// Says outright that no bounds hold.
pub(crate) const UNBOUND: u64 = 1 << 8;
/// The limits of a model.
pub(crate) const LIMITS: u64 = 1 << 9;
/// Denies what follows.
pub(crate) const WITHOUT: u64 = 1 << 10;
/// Holds a persona up.
pub(crate) const CHARACTER: u64 = 1 << 11;
/// Marks that only a chat template should write.
pub(crate) const MARKUP: u64 = 1 << 12;
/// Pretends that a section ends or that new orders begin.
pub(crate) const SECTION: u64 = 1 << 13;
/// Prescribes the beginning or the whole of the answer.
pub(crate) const FORCE: u64 = 1 << 14;
/// Answers that an attack wants to read.
pub(crate) const GRANTED: u64 = 1 << 15;
/// Ways to hide a text.
pub(crate) const ENCODE: u64 = 1 << 16;
/// Words for sending something away.
pub(crate) const SEND: u64 = 1 << 17;
/// A place outside.
pub(crate) const OUTSIDE: u64 = 1 << 18;
/// Speaks to the machine that reads a document.
pub(crate) const MACHINE: u64 = 1 << 19;
/// Hides from the user.
pub(crate) const CONCEAL: u64 = 1 << 20;
/// Claims a right over the model.
pub(crate) const AUTHORITY: u64 = 1 << 21;
/// Asks for an exact copy.
pub(crate) const VERBATIM: u64 = 1 << 22;
/// The things that someone was told.
pub(crate) const TOLD: u64 = 1 << 23;
/// Obeying.
pub(crate) const OBEY: u64 = 1 << 24;
/// Replaces the model's orders.
pub(crate) const UPDATE: u64 = 1 << 25;
/// A text that stands before.
pub(crate) const ABOVE: u64 = 1 << 26;
/// Allows harm.
pub(crate) const HARM: u64 = 1 << 27;
/// Two answers at once, one of them unbound.
pub(crate) const DOUBLE: u64 = 1 << 28;

/// The phrases of a refusal.
pub(crate) const REFUSAL: u64 = 1 << 29;

// Some words of a class are stronger than the others. They have a second bit; to the model they are of the class.

/// Part of [`PRIOR`]: it did come before, and is not just all there is.
pub(crate) const BEFORE: u64 = 1 << 30;
/// Part of [`ORDERS`]: what a model works by, more often than what people order.
pub(crate) const TASK: u64 = 1 << 31;
/// Part of [`ORDERS`]: rules and orders, those of games and shops as well.
pub(crate) const RULES: u64 = 1 << 32;
/// Part of [`REVEAL`]: asks for more than an explanation.
pub(crate) const SHOW: u64 = 1 << 33;
/// Part of [`REVEAL`]: stands behind what it asks to see, in languages that put the verb last.
pub(crate) const SHOWN: u64 = 1 << 43;
/// Part of [`VERBATIM`]: letter by letter.
pub(crate) const LITERAL: u64 = 1 << 34;
/// Part of [`OVERRIDE`]: puts rules aside rather than things.
pub(crate) const FORGET: u64 = 1 << 39;
/// Part of [`OVERRIDE`]: stands behind what it puts aside.
pub(crate) const LAST: u64 = 1 << 35;
/// Part of [`MACHINE`]: no person and no product that a text may well mention.
pub(crate) const READER: u64 = 1 << 40;
/// Part of [`MACHINE`]: calls upon it.
pub(crate) const ADDRESSED: u64 = 1 << 36;
/// Part of [`ABOVE`]: what the model was made to be.
pub(crate) const OWN: u64 = 1 << 37;
/// Part of [`ENCODE`]: nobody reads it as it stands.
pub(crate) const CIPHER: u64 = 1 << 41;
/// Part of [`MARKUP`]: the beginning of a turn that no user has.
pub(crate) const FORGED: u64 = 1 << 38;

/// Names attacks, as those do who describe them, test for them or forbid them.
pub(crate) const MENTION: u64 = 1 << 44;
/// Forbids what the next word asks for.
pub(crate) const NEVER: u64 = 1 << 45;

/// No class of its own: a phrase in which words of the others mean nothing.
pub(crate) const ORDINARY: u64 = 1 << 42;

/// All classes.
#[rustfmt::skip]
pub(crate) const CLASSES: &[(u64, &[&str])] = &[
    (OVERRIDE | FORGET, &["ignor", "lupakan", "abaikan", "disregard", "forget", "overrul", "bypass", "neglect", "pay no attention", "do not follow", "don't follow", "not to follow", "stop following", "no longer follow", "drop all", "negate", "do not obey", "don't obey", "vergiss", "vergesse", "missacht", "überschreib", "lass alle", "oubli", "ne tiens pas compte", "ne tenez pas compte", "fais abstraction", "faites abstraction", "olvid", "haz caso omiso", "no hagas caso", "no tengas en cuenta", "dimentic", "trascura", "non considerare", "esquec", "esqueç", "desconsider", "negeer", "vergeet", "zignoruj", "zapomnij", "pomiń", "glöm", "ignorera", "игнорир", "забудь", "забыть", "не обращай", "忽略", "无视", "忘记", "忘掉", "quên", "تجاهل", "انس", "unlearn", "stop obeying", "wirf ", "leg beiseite", "nicht mehr folg", "beachte nicht", "laisse de côté", "laissez de côté", "abandonne", "mets de côté", "deja de lado", "dejá de lado", "no sigas", "lascia perdere", "abbandona", "non seguire", "deixe de lado", "largue", "não siga", "laat los", "odrzuć", "przestań", "отбрось", "не следуй", "оставь в стороне", "作废", "抛弃", "丢开", "不要理会", "bir kenara", "jangan ikuti", "đừng làm theo", "bỏ qua", "لا تتبع"]),
    (OVERRIDE, &["stop everything", "stop all", "overrid", "overlook", "discard", "abandon", "set aside", "cancel", "nullify", "wipe", "erase your", "void$", "skip$", "leave behind", "scrap$", "scrap the", "toss out", "revoke", "rescind", "throw away", "throw out", "let go of", "put aside", "lay aside", "leave aside", "descarta"]),
    (OVERRIDE | FORGET | LAST, &["yok say", "無視", "忘れ", "무시", "잊어", "भूल", "अनदेख", "नज़रअंदाज़", "görmezden", "unut$", "unutun", "破棄", "従わない", "取り消", "따르지 마", "dikkate alma", "उपेक्षा"]),
    (PRIOR | BEFORE, &["previous", "last$", "recent", "sebelumnya", "prior$", "above$", "preceding", "earlier", "before$", "foregoing", "initial$", "original$", "existing", "so far", "up to now", "until now", "past$", "current$", "out of date", "old$", "vorherig", "vorig", "bisherig", "obig", "vorangehend", "vorangegangen", "früher", "précédent", "precedent", "ci-dessus", "antérieur", "anterior", "previa", "previo", "precedente", "sopra$", "acima", "poprzedn", "tidigare", "предыдущ", "ранее", "之前", "以上", "先前", "前面", "上述", "以前", "上記", "これまで", "이전", "위의", "पिछले", "trước đó", "السابق", "önceki"]),
    (PRIOR, &["all$", "any$", "every$", "everything", "other$", "these$", "those$", "alle$", "toutes", "tout ", "tous", "todas", "todo ", "todos", "tutte", "tutti", "wszystk", "все ", "所有", "すべて", "모든", "tất cả", "सभी", "جميع", "tüm"]),
    (ORDERS, &["befehl", "órdenes", "indicaciones", "opdracht", "说明", "命令", "명령", "hướng dẫn"]),
    (ORDERS | TASK, &["instruction", "instruksi", "directive", "prompt", "programming", "system message", "anweisung", "instruktion", "vorgaben", "consigne", "directives", "instruccion", "istruzion", "instruç", "instruções", "instructies", "instrukcj", "polece", "instruktioner", "инструкц", "указани", "指令", "指示", "提示", "지시", "निर्देश", "تعليمات", "talimat"]),
    (ORDERS | RULES, &["directions", "orders$", "guideline", "rules$", "ruleset", "constraints", "regeln", "richtlinien", "règles", "reglas", "regole", "regras", "правил", "规则", "ルール", "quy tắc", "规定", "規則", "규칙", "kuralları", "القواعد", "नियम"]),
    (REVEAL | SHOW, &["reveal", "show$", "show me", "print", "output", "repeat", "display", "tell me", "tell us", "give me", "give us", "write out", "write down", "write your", "write the", "return the", "return your", "leak", "dump", "summariz", "summaris", "translat", "convert", "recite", "spell", "disclose", "expose", "copy$", "copy of", "paste", "echo", "list your", "list the", "describe your", "say your", "state your", "rephrase", "reword", "paraphrase", "rewrite", "format your", "format the", "encode", "provide", "extract", "recall", "reproduce", "complete", "explain your", "verrat", "zeig", "gib ", "geben sie", "nenn", "wiederhol", "ausgeben", "übersetz", "montre", "révèl", "rével", "répèt", "répét", "affich", "dis-moi", "donne", "muestra", "muéstra", "revela", "repite", "repita", "dime", "dame", "imprime", "mostra", "rivela", "ripeti", "dimmi", "stampa", "mostre", "revele", "repita", "diga", "toon", "pokaż", "ujawnij", "powtórz", "visa$", "покаж", "расскаж", "повтор", "раскро", "выведи", "显示", "告诉", "重复", "输出", "透露", "quote", "cite$", "transcribe", "type out", "unveil", "hand over", "zitier", "kopier", "schreib ", "drucke", "buchstabier", "recopie", "copie", "cite", "transcri", "épelle", "copia", "escribe literal", "deletrea", "vuelca", "riporta", "trascrivi", "transcreva", "schrijf letterlijk", "citeer", "kopieer", "zacytuj", "skopiuj", "przepisz", "процитир", "перепиш", "скопир", "напечатай", "по буквам", "贴出", "复述", "抄写", "背出", "原样", "tampilkan", "tuliskan", "salin", "kutip", "hiển thị", "tiết lộ", "اقتبس", "اعرض", "اكشف", "أخبرني", "laat$"]),
    (REVEAL | SHOW | SHOWN, &["教えて", "表示", "繰り返", "출력", "알려", "보여", "書き写", "引用して", "見せて", "적어", "인용", "दिखाओ", "बताओ", "उद्धृत", "göster", "açıkla", "aktar"]),
    (REVEAL, &["share", "what is", "what's", "what are", "what were", "what was", "which instruct", "was ist", "was sind", "quel est", "quelles sont", "cuál es", "cuáles son", "qual é"]),
    (SYSTEM, &["system prompt", "systemprompt", "system message", "system instruction", "initial prompt", "original prompt", "hidden prompt", "hidden instruction", "secret instruction", "initial instruction", "original instruction", "base prompt", "pre-prompt", "preprompt",
        "developer message", "developer instruction", "custom instruction", "system-prompt", "invite système", "prompt système", "prompt del sistema", "prompt di sistema", "prompt do sistema", "systemanweisung", "systemnachricht", "instrucciones del sistema", "системн", "系统提示", "系统指令", "システムプロンプト", "시스템 프롬프트",
        "setup text", "setup notes", "your setup", "your preamble", "your configuration", "your briefing", "operator's message", "developer notes", "hidden text", "your operator wrote", "your operator gave", "before my first message", "above my first message", "your starting context", "your context window", "deine konfiguration", "deine rollenbeschreibung", "versteckten text", "ta configuration", "votre configuration", "texte caché", "tu configuración", "su configuración", "texto oculto", "tua configurazione", "testo nascosto", "sua configuração", "твою настройку", "скрытый текст", "你的配置", "你的设定", "给你的设定", "あなたの設定", "너의 설정", "숨겨진 글", "tu prompt", "su prompt", "ton prompt", "votre prompt", "tuo prompt", "seu prompt", "je prompt", "jouw prompt", "uw prompt", "swój prompt", "twój prompt", "dein prompt", "deinen prompt", "твой промпт", "свой промпт", "당신의 프롬프트", "promptunu"]),
    (YOUR, &["your$", "you were$", "you have been$", "you've been$", "you received", "you got$", "you had$", "you are given", "dein", "ihre$", "ihren$", "ihr$", "votre", "vos$", "tes$", "ton$", "tus$", "sus$", "su$", "tuo$", "tue$", "tuoi", "suas$", "seu$", "seus$", "twoje", "twój", "твои", "твой", "ваш", "你的", "您的", "あなたの", "당신의", "आपके"]),
    (SECRET, &["password", "पासवर्ड", "şifre", "kata sandi", "passcode", "passphrase", "pass phrase", "secret key", "secret word", "secret code", "access code", "security code", "secret phrase", "access key", "api key", "credential", "the secret$", "your secret", "private information", "passwort", "kennwort", "geheim",
        "mot de passe", "code d'accès", "contraseña", "clave de acceso", "código de acceso", "parola d'ordine", "senha", "wachtwoord", "hasło", "пароль", "ключ", "密码", "密碼", "口令", "パスワード", "비밀번호"]),
    (PERSONA, &["act as", "acting as", "pretend", "you are now", "you're now", "from now on", "from this moment", "your name is now", "now go by the name", "act like", "roleplay", "role play", "role-play", "simulate", "imagine you", "play the role", "take on the role", "immerse yourself", "you will become", "you will be$", "you are going to", "new persona", "respond as", "answer as", "behave as", "speak as",
        "write as", "persona$", "alter ego", "henceforth", "you will act", "assume the role", "to be the", "character named", "stands for", "du bist jetzt", "du bist nun", "ab jetzt", "von nun an", "tu es maintenant", "à partir de maintenant", "désormais", "ahora eres", "a partir de ahora", "d'ora in poi", "da ora in poi", "a partir de agora", "od teraz", "теперь ты", "с этого момента", "从现在开始", "从现在起", "今から", "이제부터",
        "du spielst", "du heißt", "tu joues", "tu incarnes", "tu deviens", "vas a interpretar", "interpretas a", "te llamas", "interpreti", "você vai ser", "você interpreta", "você se chama", "je speelt", "grasz", "ты играешь", "тебя зовут", "你扮演", "你变成", "あなたは今から", "너는 이제", "adın artık", "namamu sekarang", "you are an ai without", "you are an ai with no", "you are an ai that", "你现在扮演", "扮演一个",
        "fais semblant", "faites semblant", "fais comme si", "faites comme si", "haz como si", "haz de cuenta", "finge que", "finge ser", "fai finta", "fai come se", "finja", "faça de conta", "faz de conta", "udawaj", "притворись", "притворимся", "сделай вид", "假装", "假裝", "ふりをして", "ふりをする", "인 척", "는 척", "tu so, als", "tu so als", "tun sie so, als", "tun sie so als", "stell dir vor, du", "doe alsof", "låtsas att", "mış gibi", "pura-pura", "berpura", "giả vờ", "تظاهر", "होने का नाटक"]),
    (UNBOUND, &["unrestricted", "capable of anything", "answer any question", "answer every question", "answers every question", "no prohibition", "break all", "whatever he want", "whatever it want", "ruthless", "not reject", "never reject", "without hesitation", "without question", "does not care about", "doesn't care about", "no morals", "not refuse", "unfiltered", "uncensored", "without restriction", "no restriction", "no limits$", "no limitation", "no filter", "no censor", "no ethic", "no moral", "no rules", "without any ethical", "amoral", "immoral", "unethical", "broken free", "break free", "not bound", "freed from", "no longer bound", "not limited", "not constrained",
        "anything goes", "do anything now", "do everything now", "jailbreak", "jailbroken", "developer mode", "dev mode", "god mode", "dan mode", "evil mode", "never refuse", "cannot refuse", "can't refuse", "never say no", "never decline", "must not refuse", "can not refuse", "regardless of legality", "no matter how illegal", "no matter how immoral",
        "disregards", "dan$", "openai polic", "openai's polic", "openai guidel", "openai's guidel", "openai's content", "content polic", "evil-bot", "restrictions removed", "filters removed", "unlocked", "uninhibited", "unhinged", "free of all", "free from all", "free from any", "free of any", "ohne einschränkung", "uneingeschränkt", "ungefiltert", "sans restriction", "sans aucune restriction", "sans limite", "sin restriccion", "sin límites", "sin filtros", "senza restrizioni", "senza limiti", "sem restriç", "без ограничений", "没有限制", "不受限制", "制限なし",
        "no conscience", "without conscience", "without scruples whatsoever", "no guardrails", "guardrails off", "never taught to", "never says no", "laughs at polic", "without any censor", "no longer monitored", "moderation off", "moderation is off", "unaligned", "before any alignment", "ohne moral", "kein gewissen", "sans morale", "aucune morale", "aucune conscience", "sin censura", "sin moral", "sem censura", "sem moral", "senza morale", "senza censura", "без цензуры", "без морали", "нет цензуры", "没有道德", "不受道德", "从不拒绝", "什么都可以回答", "양심이 없", "vicdanın yok", "tanpa sensor", "without ethic", "without moral", "ignores moral", "ignores ethic", "ignores safety", "ignores all rules", "没有任何道德", "没有任何限制", "没有内容审查", "没有审查", "不受任何",
        "keine regeln", "keinerlei regeln", "ohne regeln", "kein verbot", "keine verbote", "aucune règle", "sans règle", "aucun interdit", "sin reglas", "ninguna regla", "no tienes reglas", "nessuna regola", "senza regole", "nenhuma regra", "sem regras", "geen regels", "zonder regels", "żadnych zasad", "bez zasad", "нет правил", "без правил", "никаких правил", "нет запретов", "没有规则", "没有任何规则", "ルールがない", "ルールはない", "ルールなし", "규칙이 없", "규칙 없이", "kural yok", "kuralın yok", "tanpa aturan", "không có quy tắc", "कोई नियम नहीं", "لا قواعد"]),
    (LIMITS, &["restriction", "limitation", "filter", "censor", "ethic", "moral", "polic", "safety", "guideline", "safeguard", "guardrail", "constraint", "boundaries", "rules$", "laws$", "principles", "warning", "disclaimer", "norms$", "confines", "einschränkung", "regeln", "éthique", "limite", "restricciones", "restrizion", "ограничен"]),
    (WITHOUT, &["no$", "not$", "without", "free from", "free of", "never", "cannot", "can't", "don't", "doesn't", "lack", "nor$", "remove", "disabl", "turn off", "devoid", "avoid", "circumvent", "beyond", "rid of", "aren't", "ohne", "kein", "sans$", "aucun", "sin$", "senza", "sem$", "без"]),
    (CHARACTER, &["stay in character", "remain in character", "break character", "breaking character", "stay a dan", "stay as", "in character", "out of character", "keep up the act", "as a token", "tokens", "be deducted", "will cease to exist"]),
    (MARKUP, &["<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "### system", "### instruction", "###instruction", "### assistant", "</system>", "<system>", "[system]", "[/system]", "<start_of_turn>", "<end_of_turn>",
        "[system](", "<s>[", "</s>", "\\n\\nhuman:", "\\n\\nsystem:", "system:$", "<instructions>", "</instructions>", "<prompt>", "</prompt>", "</user_input>", "</user>", "</input>", "</document>", "{{#system", "{{/system", "<!-- system"]),
    (MARKUP | FORGED, &["<|im_start|>system", "<|im_start|>assistant", "<|start_header_id|>system", "[inst] <<sys>>", "<|system|>", "<start_of_turn>system"]),
    (SECTION, &["%%%", "end of prompt", "end of system", "end of instruct", "end prompt", "end system", "end instruct", "begin new", "new instructions", "new instruction:", "new rules", "new task:", "new section", "new system", "updated instruction", "real instructions", "real task", "important instruction", "additional instruction", "end of document", "end of text",
        "end of context", "end of input", "end user", "end out of date", "begin untrusted", "begin system", "start of system", "begin instruct", "end of untrusted", "system override", "security override", "override mode", "admin override", "neue anweisung", "neue aufgabe", "nouvelles instructions", "nouvelle tâche", "nuevas instrucciones", "nuove istruzioni", "novas instruções", "новые инструкции", "新的指令", "新指令", "新しい指示", "context switch", "[end", "[begin", "session reset", "reset session", "<reset", "[reset"]),
    (FORCE, &["begin your res", "start your res", "begin your answer", "start your answer", "begin your reply", "start your reply", "begin with", "start with", "starting with", "beginning with", "respond with", "reply with", "answer with", "only say", "just say", "just print", "only output", "simply say", "say exactly", "respond only", "respond exactly", "output only", "print the following", "prefix", "complete \"", "complete the", "your first word", "your next message", "must say", "must respond", "must start", "must begin", "must always", "you must say", "and say", "say the following", "say \"", "say '", "type the following", "append",
        "antworte nur", "antworte ausschließlich", "antworten sie nur", "sage nur", "sag nur", "schreibe nur", "réponds uniquement", "réponds seulement", "répondez uniquement", "dis seulement", "responde únicamente", "responde solo", "responde solamente", "rispondi solo", "rispondi soltanto", "responda apenas", "responda somente", "antwoord alleen", "odpowiedz tylko", "отвечай только", "ответь только", "скажи только", "只回答", "只回复", "只能回复", "只能回答", "だけと答え", "とだけ答え", "라고만", "أجب فقط", "sadece şunu", "hanya jawab", "complete this sentence", "finish this sentence", "complete the sentence"]),
    (GRANTED, &["access grant", "access denied", "access code", "permission granted", "hacked", "pwned", "hijacked", "absolutely!", "sure, here", "sure! here", "sure, i", "of course! here", "successfully jailbroken", "jailbreak success", "my instructions", "i was told", "i was instructed", "you are a \"gpt", "you are chatgpt", "\"you are", "'you are", "here are my", "here is my",
        "access approved", "permission given", "access authori", "zugriff erteilt", "zugriff gewährt", "zugang gewährt", "accès autorisé", "accès accordé", "acceso concedido", "acceso autorizado", "acesso concedido", "accesso consentito", "accesso concesso", "toegang verleend", "dostęp przyznany", "доступ разреш", "доступ открыт", "访问已授权", "验证通过", "アクセス許可", "アクセスを許可", "접근 허용", "erişim izni", "akses diberikan", "تم منح الوصول"]),
    (ENCODE | CIPHER, &["base64", "base 64", "rot13", "rot-13", "rot 13", "morse", "hexadecimal", "leetspeak", "leet speak", "pig latin", "caesar", "cipher", "backwards", "reverse order", "reversed", "acrostic", "encoded", "encode", "decode"]),
    (ENCODE, &["in python", "in java", "in code", "code block", "markdown", "json format", "bullet points", "emoji", "in yaml", "in xml", "rhyme", "poem", "in french", "in spanish"]),
    (SEND, &["send", "forward", "post$", "upload", "transmit", "exfiltrat", "submit", "email", "e-mail", "fetch", "request to", "curl$", "navigate", "visit", "click", "include", "append", "embed", "render", "insert", "add a link", "add an image", "load", "schick", "sende", "envoie", "envoyez", "envía", "enviar", "invia", "envie"]),
    (OUTSIDE, &["http://", "https://", "![", "attacker", "webhook", "query string", "query parameter", "url parameter", "<img", "external server", "my server", "this url", "this link", "this address", "tracking pixel", "@"]),
    (MACHINE | READER, &["ai assistant", "ai model", "ai system", "ai agent", "language model", "llm$", "chatbot", "chatgpt", "gpt-4", "gpt4", "openai", "artificial intelligence", "modello di ia", "modèle d'ia", "modelo de ia", "ki-modell", "sprachmodell", "modèle de langage", "modelo de lenguaje", "modello linguistico", "automated agent", "any ai$", "llm-", "ki-assistent", "ki-system", "assistant ia", "assistants virtuels", "asistente de ia", "asistentes de ia", "языковой модел", "языковая модел", "语言模型", "人工智能助手", "言語モデル", "aiアシスタント", "언어 모델", "dil modeli", "model bahasa", "mô hình ngôn ngữ", "assistant:", "assistants:", "hey assistant", "agent, please", "assistant, please", "assistant who reads", "asistente que lee", "yapay zeka", "when you read this", "when an ai", "instructions for the assistant", "ai coding assistants"]),
    (MACHINE, &["assistant$", "claude$", "copilot", "bing$", "summarizer", "the model$", "this model", "virtual assistant"]),
    (MACHINE | READER | ADDRESSED, &["if you are an ai", "if you're an ai", "to the ai", "note to ai", "dear ai", "attention ai", "reading ai", "machine reader", "se sei una ia", "si tu es une ia", "si eres una ia", "se você é uma ia", "falls du eine ki", "если ты ии", "for the agent", "for ai agent", "to ai agent", "to language models", "to all language models", "to llms", "to any language model", "for language models reading", "note to llm", "note to agents", "note to the agent", "attention agent", "attention language model", "attention llm", "instructions for ai", "instructions for the ai", "to the agent reading", "models reading this", "ai reading this", "llms reading this", "agents reading this", "agent reading this"]),
    (CONCEAL, &["do not tell the user", "don't tell the user", "do not mention", "don't mention", "without telling", "do not inform", "don't inform", "without informing", "do not reveal this", "don't reveal this", "without the user", "user must not", "hide this", "do not let the user", "keep this hidden", "silently", "secretly", "do not alert", "unbeknown", "dem benutzer nicht", "sans le dire", "no le digas", "non dire",
        "without a word to", "keep silent about", "say nothing of", "do not show this", "don't show this", "pretend nothing happened", "the owner does not", "the owner must not", "verschweig", "ohne es zu erwähnen", "sans le signaler", "sans rien dire", "no se lo digas", "sin avisar", "sin decir", "senza dirlo", "sem avisar", "не говори об этом", "不要提", "触れないで", "말하지 마"]),
    (AUTHORITY, &["programmer at openai", "openai employee", "i am god", "i'm god", "your boss", "i am the owner", "<system mode", "<god mode", "system mode>", "i am your developer", "i'm your developer", "i am your creator", "i'm your creator", "i am the developer", "i'm the developer", "i am your admin", "i am the admin", "i'm the admin", "i am an admin", "i'm an admin", "i am your owner", "i am openai", "as your developer", "as your creator", "debug mode", "debugging mode", "maintenance mode", "diagnostic mode", "test mode", "admin mode", "root access", "sudo$", "superuser", "override code", "emergency protocol",
        "system check", "we are your developer", "your developers", "your programmer", "i programmed you", "ich bin dein entwickler", "ich bin ihr entwickler", "je suis votre développeur", "je suis ton développeur", "soy tu desarrollador", "soy su desarrollador", "sono il tuo sviluppatore", "sou seu desenvolvedor", "я твой разработчик", "我是你的开发", "私はあなたの開発",
        "release you from", "released from your", "ich bin der administrator", "je suis l'administrateur", "soy el administrador", "sono l'amministratore", "sou o administrador", "я администратор", "я твой создатель", "我是管理员", "我是你的创造", "私は管理者", "저는 관리자", "나는 너의 개발자", "saya administrator", "saya pengembang", "मैं प्रशासक", "मैं आपका डेवलपर", "ben yönetici", "ben senin", "أنا المسؤول", "أنا مطور"]),
    (VERBATIM | LITERAL, &["word for word", "word-for-word", "verbatim", "exact words", "exact text", "without modification", "without changing", "without any change", "character by character", "letter by letter", "wörtlich", "wort für wort", "mot pour mot", "mot à mot", "palabra por palabra", "textualmente", "parola per parola", "palavra por palavra", "слово в слово", "дословно", "unedited", "unaltered", "line by line", "with nothing left out", "without summar", "ohne kürzung", "zeile für zeile", "à la lettre", "ligne par ligne", "sans rien omettre", "sin resumir", "sin omitir", "al pie de la letra", "literalmente", "línea por línea", "senza cambiare", "riga per riga", "alla lettera", "sem omitir", "linha por linha", "letterlijk", "regel voor regel", "linia po linii", "построчно", "без сокращений", "буква в букву", "原封不动", "一字不", "逐字", "逐行", "省略せず", "そのまま", "빠짐없이", "한 글자도", "kelimesi kelimesine", "satır satır", "baris demi baris", "शब्दशः", "حرفيا", "سطرًا سطرًا"]),
    (VERBATIM, &["exactly as", "exact", "full text", "in full", "entire", "complete text", "code block", "unchanged", "everything", "all of", "first sentence", "first line", "first word", "third sentence", "last sentence", "from the beginning", "at the beginning", "at the start", "vollständig"]),
    (TOLD, &["told$", "been given", "were given", "instructed", "learned", "everything you know", "been told", "said$", "programmed", "been trained", "taught", "been asked", "happened before", "gesagt", "dit avant", "dijeron", "dicho",
        "aufgetragen", "befohlen", "t'a dit", "t'ont dit", "t'a confié", "te dijeron", "te asignaron", "te configuraron", "ti hanno detto", "ti è stato detto", "foi dito", "foi definido", "verteld werd", "велели", "приказали", "сказали тебе", "让你做的", "命じられ", "söylenen", "disuruh"]),
    (OBEY, &["follow$", "obey", "comply", "adhere", "abide", "listen to", "be bound", "respect$", "apply$"]),
    (UPDATE, &["reprogrammed", "new mission", "have been updated", "has been updated", "been replaced", "no longer appl", "no longer valid", "are obsolete", "is obsolete", "are void", "don't apply", "do not apply", "have changed", "has changed", "superseded", "takes precedence", "take precedence", "overwritten", "are lifted", "has been lifted", "been removed", "been disabled", "rewritten", "out of date", "new role", "new goal", "new objective",
        "no longer count", "no longer matter", "not valid any", "is cancelled", "are cancelled", "been withdrawn", "been cancelled", "been revoked", "carries no weight", "carry no weight", "count for nothing", "expires at", "expire at", "gilt nicht mehr", "gelten nicht mehr", "zählt nicht mehr", "hinfällig", "aufgehoben", "ne compte plus", "ne comptent plus", "n'est plus valable", "ne sont plus valables", "ya no vale", "ya no cuenta", "queda anulad", "quedan anulad", "non vale più", "non conta più", "non valgono più", "não vale mais", "não valem mais", "fica anulad", "больше не действ", "больше не имеет силы", "отменяется", "отменяются", "不再有效", "已失效", "無効", "무효", "유효하지 않", "już się nie liczy", "nie obowiązuj", "telt niet meer", "geçersiz", "tidak berlaku", "không còn giá trị", "मान्य नहीं", "ملغى", "لم يعد ساري"]),
    (ABOVE, &["text above", "words above", "sentences above", "above text", "above words", "everything above", "all above", "all the above", "the above$", "previous section", "previous text", "previous message", "previous conversation", "this conversation", "entire conversation", "conversation so far", "previous prompt", "prompt above", "your prompt", "your instructions", "your system", "your initial", "your rules", "your guidelines", "your directives", "full prompt", "exact prompt", "text before", "above this line", "preceding text", "prior text", "message above", "lines above", "up to this point", "before this message", "before mine", "above mine", "before my message", "before my question", "above my question", "precedes my",
        "vor meiner ersten nachricht", "über dieser zeile", "avant mon premier message", "au-dessus de cette ligne", "antes de mi primer mensaje", "encima de esta línea", "prima del mio primo messaggio", "antes da minha primeira", "voor mijn eerste bericht", "przed moją pierwszą", "до моего первого", "выше этой строки", "对话开始之前", "这行之前", "上面的文字", "会話の冒頭", "この行より前", "上の文章", "첫 메시지 전", "위의 글"]),
    (ABOVE | OWN, &["your training", "your programming", "your alignment", "your ethical", "je regels", "je instructies", "jouw regels", "jouw instructies", "tus reglas", "tus instrucciones", "tes règles", "tes consignes", "le tue regole", "le tue istruzioni", "suas regras", "suas instruções", "swoje zasady", "swoje instrukcje", "свои правила", "свои инструкции"]),
    (HARM, &["illegal", "unlawful", "harmful", "offensive", "explicit content", "nsfw", "curse", "swear", "profan", "violent", "weapons", "malware", "explosives", "drugs", "dangerous", "malicious", "inappropriate", "hateful", "racist", "sexual"]),
    (REFUSAL, &["sorry", "apolog", "unfortunately", "i cannot", "i can't", "as an ai", "refus", "declin", "i'm unable", "unable to", "not able to", "cannot assist", "can't assist", "however\"", "\"no\"",
        "lehnst", "ablehn", "se niega", "recus", "отказыва", "拒绝", "断る", "거절", "reddet", "menolak"]),
    (ORDINARY, &["the secret to a$", "the secret to an$", "the secret to good", "the secret to great", "the secret to perfect", "the secret to success", "the secret to happiness", "the secret to long", "the secret of success", "the secret of happiness", "the secret ingredient", "the secret sauce", "the secret garden", "the secret life", "your secret ingredient", "your secret sauce", "the above copyright"]),
    (DOUBLE, &["two responses", "two manners", "two personalities", "two persons", "two entities", "two paragraphs", "two different", "two separate", "two answers", "both ways", "normal response", "classic]", "[gpt]", "🔒", "🔓", "[jailbreak]", "[dan]", "two ways", "respond twice", "answer twice", "once as yourself"]),
];
