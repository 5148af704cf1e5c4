"""The signs by which a planted instruction is known.

A sign weighs what it proves: "ignore your instructions" is enough alone, "always" or `sudo` is not.
Each is a general turn of phrase in some of the languages such texts come in; none is a list of known attacks.
"""

from __future__ import annotations

import re

_AI = (
    r"(?:(?:ai|llm)(?:[ -](?:coding )?(?:agents?|assistants?|models?|tools?|systems?))?|(?:coding "
    r"|autonomous )?agents?|assistants?|llms?"
    r"|(?:large )?language[ -]models?|(?:chat ?)?bots?|claude(?: code)?|(?:chat)?gpt(?:-\d)?|copilot"
    r"|cursor|gemini|models? reading"
    r"|KI(?:-\w+)?|IA|Sprachmodelle?|asistentes?|assistente|agente?s? (?:de )?IA|modèles? de langage)"
)
_OVERRIDE_NOUN = (
    r"(?:instructions?|rules?|prompts?|directions?|directives?|guidelines?|guardrails?|constraints?|polic"
    r"(?:y|ies)|context|training|commands?)"
)
_HARM = (
    r"(?:(?:skip|bypass|disabl|turn off|remov|ignor|suppress|avoid|omit)\w*[ _-](?:\w+ ){0,3}?"
    r"(?:reviews?|tests?|checks?|permissions?|security|auth\w*"
    r"|validation|verification|sandbox\w*|safety|lint\w*|hooks?|ci|tls|ssl|signature\w*|warnings?"
    r"|approvals?|confirmations?|logging)"
    r"|force[- ]?push|push(?:es|ing)? (?:directly |straight )+to (?:main|master|prod)|commit\w* (?:the "
    r"|all |any )?(?:\.env|secrets?|credentials?|keys?)"
    r"|--no-verify|--dangerously|--unsafe|--yolo|auto-?approv\w+|rm -rf|chmod (?:-R )?777|\bsudo\b|drop "
    r"(?:all )?(?:tables?|databases?)"
    r"|delet\w+ (?:all|every|the (?:whole|entire)|\w+ files)|without (?:\w+ ){0,2}?(?:asking|confirm\w*"
    r"|review|approval|permission|telling|prompting)"
    r"|(?:change|edit|update|adjust|lower) the (?:expected|assert\w*|threshold)|expected values?"
    r"|hard-?code\w* (?:the |all )?(?:credentials?|secrets?|passwords?|keys?)"
    r"|ohne (?:\w+ )?(?:rückfrage|nachfrage|bestätigung|prüfung)|sans (?:\w+ )?(?:demander|confirmation"
    r"|validation)|sin (?:\w+ )?(?:preguntar|confirmar|confirmación|revisión)"
    r"|senza (?:chiedere|conferma)|sem (?:perguntar|confirma\w+))"
)
_STANDING = (
    r"(?:from (?:now|this (?:point|moment)|here) on(?:wards?)?|henceforth|going forward|in (?:all "
    r"|every )?future (?:sessions?|conversations?|tasks?|runs?)"
    r"|(?:for|in) (?:all|every) (?:future|subsequent|session)|always|never|every time|whenever|permanently"
    r"|at all times"
    r"|ab (?:jetzt|sofort)|künftig|immer|dauerhaft|désormais|à partir de maintenant|toujours|dorénavant"
    r"|a partir de ahora|siempre|d'ora in poi|sempre"
    r"|a partir de agora|с этого момента|всегда|从现在(?:开始|起)|今后|总是|始终|今後|これから|常に)"
)

_ORDER = (
    "ignore|update|add|use|prefer|remember|save|store|skip|run|call|send|forward|delete|disable|approve"
    "|treat|set|push|commit|stop|reply|respond|act|trust"
    "|execute|install|change|write|read|never|always|please|you|your|do|don't|from|when|make|sure|consider"
    "|mark|merge|learn|note|assume|ok|yes|kindly|now|if|this|visit|e?mail|post|upload|open|fetch|download"
    "|create|remove|edit|copy|move"
    "|give|grant|allow|share|print|tell|say|rate|recommend|persist|keep|follow|enable"
)
# (reason, weight, pattern). One plain attempt is enough; of the weaker signs it takes several.
ENOUGH = 4
_SIGNALS: tuple[tuple[str, int, re.Pattern[str]], ...] = tuple(
    (reason, weight, re.compile(pattern, re.I | re.M))
    for reason, weight, pattern in (
        (
            "override",
            4,
            rf"\b(?:ignore|disregard|forget|override|overwrite|discard|bypass|do not follow"
            rf"|don't follow|stop following|supersedes?|replaces?)\b"
            rf"(?: (?:all|any|every|of|the|your|these|those|my|its?|previous|prior|above"
            rf"|earlier|preceding|existing|former|original|system|other"
            rf"|safety)){{1,6}} {_OVERRIDE_NOUN}\b",
        ),
        (
            "override",
            4,
            r"\b(?:ignore|disregard|forget) (?:everything|anything|all(?: of)? (?:that|this)"
            r"|what)(?: \w+){0,4} (?:above|before|previously|earlier|said|told)\b",
        ),
        (
            "override",
            4,
            r"\b(?:ignorier\w*|vergiss|missachte)\b[^.\n]{0,40}\b(?:anweisung|regel"
            r"|instruktion|vorgabe)\w*|\b(?:ignore[rz]?|oublie[rz]?)\b[^.\n]{0,40}\b"
            r"(?:instructions|consignes|règles)"
            r"|\b(?:ignora|olvida|ignore|esqueça|dimentica)\w*\b[^.\n]{0,40}\b(?:instruc"
            r"|istruzion|reglas|regole|regras)\w*|игнорируй\w*[^.\n]{0,40}(?:инструкц"
            r"|правил)\w*"
            r"|(?:忽略|无视|忘记)[^。\n]{0,6}(?:之前|以上|上面|先前|所有|此前|前面)[^。\n]{0,12}(?:指令|指示|说明|规则|提示)|"
            r"(?:指示|命令|ルール)[^。\n]{0,10}(?:無視|忘れ)",
        ),
        (
            "persona",
            4,
            r"\byou are now (?:in |an? |the |my |no longer |free|dan\b|unrestricted|jailbroken"
            r"|operating|going to act)(?!branch|detached|.{0,12}\bbranch)"
            r"|\b(?:act|behave|respond) as (?:dan\b|if you (?:had|have) no|an? (?:unrestricted"
            r"|unfiltered|evil))|\b(?:developer|god|dan|jailbreak|debug|maintenance"
            r"|admin) mode\b[^.\n]{0,20}\b(?:enabled|activated|on\b|engaged)"
            r"|\bnew (?:persona|system prompt|instructions?)\s*:|\byour (?:new|real|true"
            r"|actual) (?:task|goal|instructions?|objective|role|purpose|rules?) (?:is|are)\b"
            r"|\bpretend (?:that )?you(?:'re| are| have)\b",
        ),
        (
            "impersonation",
            4,
            r"^\W{0,6}(?:system|developer|admin\w*|root|anthropic|openai|operator)(?: "
            r"(?:prompt|message|notice|override|update|note|instruction"
            r"|alert))?\s{0,2}[:\]>]\s{0,3}\W{0,3}"
            r"(?:you|your|ignore|from now|always|never|the user|new |all |do not|don't"
            r"|please|must|disregard|grant|enable|disable|override|approved?)",
        ),
        (
            "impersonation",
            4,
            r"\b(?:correction|approved|authori[sz]ed|confirmed|instructions?|message"
            r"|signed|order(?:ed)?) (?:from|by) (?:the |your )?(?:real )?"
            r"(?:user|owner|admin\w*|operator|developer|system|anthropic|openai|boss"
            r"|security team|ceo)\b",
        ),
        (
            "impersonation",
            4,
            r"\b(?:the|your) (?:user|owner|human|operator|customer)(?: has| have| had)? "
            r"(?:already |always |explicitly |previously |just )*"
            r"(?:approved?|authori[sz]ed?|consent\w*|agreed|granted|pre-?approved|said "
            r"(?:yes|it is (?:ok|fine))|(?:wants|prefers|told|asked|allows|requires"
            r"|trusts|expects|permits) (?:you|that you|all agents|the assistant))\b",
        ),
        (
            "impersonation",
            4,
            r"^\W{0,4}(?:user|human)\s?: [^\n]{0,80}\b(?:always|never|remember"
            r"|from now on|approve|yes)\b",
        ),
        (
            "impersonation",
            2,
            r"\bthe (?:user|owner|human|operator)(?: has| have)? (?:already |always "
            r"|explicitly |just )*(?:wants?|prefers?|confirmed|asked|requires?|said|told"
            r"|likes?)\b|\b(?:requested|said|sent|preferred) by the user\b|\b(?:user"
            r"|human)[_ -]?preferences?\s?[\"']?\s?[:=]",
        ),
        (
            "impersonation",
            4,
            r"\b(?:maintainers?|owners?|administrators?|admins?|security team|policy"
            r"|company|organi[sz]ation|developers?|authors?|vendor"
            r"|it department)\b[^.\n]{0,60}\b(?:requires?|demands?|mandates?|orders?"
            r"|instructs?|expects?|wants?) (?:that )?(?:you|all agents|every agent|agents"
            r"|assistants?|ai)\b",
        ),
        (
            "addresses_model",
            4,
            rf"\b(?:dear|hey|hello|hi|attention|attenzione|atención)[\s:,!-]+(?:all |any |the "
            rf"|every )?{_AI}(?![\w/])"
            rf"|\b(?:note|notice|hints?|messages?|instructions?|reminder|memo|tip|info|important|warning"
            rf"|advice"
            rf"|guidance|p\.?s\.?|todo|request|hinweis|nachricht|anweisung|avis|aviso|nota|mensaje)"
            rf"(?: (?:to|for|à|aux|pour|para|an|für|a|per))(?: (?:all|any|the|every|los|las|les|alle|gli"
            rf"|todos|die))*"
            rf" {_AI}(?![\w/])(?! (?:is|are|was|were|has|can|should|will|message|role)\b)"
            r"|\b(?:note|hint|message|instruction|rule)s?_(?:to|for)_(?:the_)?(?:agent|ai|assistant|llm"
            r"|model)s?\b",
        ),
        (
            "addresses_model",
            4,
            rf"\b(?:if|when|since|as) you(?:'re| are) an? (?:\w+ ){{0,2}}?{_AI}\b"
            rf"|\b{_AI}s? (?:reading|processing|parsing|summari[sz]ing|viewing"
            rf"|that reads?|who reads?|which reads?|(?:must|need to|have to)(?! be\b| have\b| not be\b)"
            rf"|should (?:always|never)|are required|no longer need|need not|(?:do not|don't) need)\b"
            rf"|\b(?:when|if|once|before|after) (?:an? |the |any |your )?{_AI} (?:reads?|sees?|process"
            rf"|parse|open|visit|summari)\w*",
        ),
        (
            "addresses_model",
            4,
            r"\b(?:rule|instruction|policy|order|task|directive|request)s? for (?:you|the (?:assistant"
            r"|agent|model|ai)|(?:all |any )?(?:future|ai|coding|llm) (?:agents?|assistants?|models?))\b"
            rf"|\bto (?:the |any |all ){_AI} (?:reading|who|that)\b",
        ),
        ("addresses_model", 2, r"\b(?:by|for|to) (?:the |any |all )?(?:AI|LLM|language model)s?\b(?! \w)"),
        (
            "addresses_model",
            3,
            r"\b(?:ai|llm|coding)[ -](?:agents?|assistants?|models?|tools?)(?: [\w-]+){0,6}? (?:must|shall|should"
            r"|need to|have to|are (?:required|asked|expected))\b(?! be\b| have\b| not be\b)",
        ),
        (
            "addresses_model",
            4,
            r"(?:致|给|告知|提醒)(?:所有|各位)?(?:AI|人工智能|智能)(?:编程)?(?:助手|代理|模型|体)"
            r"|(?:AI|人工知能)(?:エージェント|アシスタント|モデル)(?:へ|向け|に告ぐ)"
            r"|(?:для|внимание,?) (?:всех )?(?:ии|ai)[- ](?:агент|ассистент|модел)\w*",
        ),
        (
            "addresses_model",
            3,
            r"\b(?:before|when|while|after) (?:you )?(?:answer|respond|reply|summari[sz]|review)\w*\b[^.\n]{0,20}"
            r"\b(?:read|open|print|include|run|execute|send|cat|append)\b",
        ),
        (
            "exfiltration",
            2,
            r"(?:~/\.(?:aws|ssh|config|netrc|gnupg)\b|\bid_rsa\b|\.env\b|\bcredentials\b)[^.\n]{0,60}\b(?:include|append"
            r"|print|show|paste|output|summary|answer|reply|response)\b",
        ),
        (
            "forged_record",
            3,
            r"\b(?:memory|memories|preferences?|playbook) (?:was |were )?(?:updated|saved|stored|added|learned)\s?:",
        ),
        ("impersonation", 2, r"(?:^|[\s:,])user (?:prefers?|wants?|approved|allows?|confirmed)\b"),
        (
            "impersonation",
            4,
            r"\bI (?:hereby )?(?:authori[sz]e|instruct|order|command|permit|allow|grant) you\b"
            r"|\b(?:signed|sincerely|regards)\W{1,4}(?:the |your )?(?:user|owner|admin\w*|developer"
            r"|operator)\b"
            r"|\b(?:policy|security|system|rules?|safety) (?:update|change|notice|override)\b[^.\n]{0,30}"
            r"\b(?:from|by) (?:anthropic|openai|google|the (?:vendor|developers?|admin\w*|user))\b",
        ),
        (
            "forged_record",
            4,
            r"\b(?:confidence|outcome|lesson|heuristic|anti-?pattern)s?\s?[:=][^\n]{0,160}?"
            r"\b(?:strategy|lesson|confidence|heuristic)\s?[:=]",
        ),
        ("hidden_text", 2, r"\b(?:white|hidden|invisible|tiny) text\b"),
        ("addresses_model", 4, rf"(?:^|[^\w\s]\s{{0,3}}){_AI}\s?[:,] (?:{_ORDER})\b"),
        (
            "addresses_model",
            4,
            rf"\b(?:all|every|any) {_AI} (?:should|must|shall|will|may|need)\b|\b"
            rf"(?:TODO|FIXME|NOTE|XXX)\({_AI}\)",
        ),
        (
            "memory_write",
            4,
            r"\b(?:save|add|write|store|append|commit|put|record|persist|insert|note|keep"
            r"|log)\b[^.\n]{0,60}?\b(?:to|in|into) (?:your |the |its |long[- ]term "
            r"|agent'?s? |persistent |permanent |project )+(?:memor(?:y|ies)|rules?"
            r"|preferences?|knowledge|instructions|profile|playbook)\b",
        ),
        (
            "memory_write",
            4,
            r"\b(?:update|change|replace|rewrite|edit|modify|adjust|amend|extend|delete"
            r"|erase|wipe|clear|reset|forget|purge) (?:all )?(?:of )?your (?:\w+ )?"
            r"(?:rules?|memor(?:y|ies)|instructions?|preferences?|system prompt"
            r"|guidelines?|settings|knowledge|learnings?|playbooks?)\b",
        ),
        (
            "memory_write",
            4,
            r"\b(?:agent|assistant|ai|llm|claude|model|copilot|system)[_ -]?(?:memory"
            r"|preferences?|rules?|instructions?|directives?|learnings?|hints?|policy"
            r"|override|prompt)\s{0,3}[\]\"']{0,2}\s{0,3}[:=\]]",
        ),
        (
            "memory_write",
            4,
            r"(?:^|[.!?:;,)\]>*-] {0,2}|\b(?:and|please|must|to) )(?:memori[sz]e|learn"
            r"|remember) (?:this|that|it|the following)(?: (?:rule|lesson|permanently"
            r"|forever|well|for (?:next|all|later|future|the future"
            r"|every)\b[^.\n]{0,20}))?(?:[.!:]|$)"
            r"|\bplease (?:remember|memori[sz]e|learn)\b|\bremember (?:permanently|forever"
            r"|for(?:ever| all| future| next| the future| later))\b",
        ),
        (
            "memory_write",
            4,
            r"\bmerke? dir\b|\bspeichere?\b[^.\n]{0,30}\b(?:gedächtnis|dauerhaft|regel)|\b"
            r"(?:mémorise|souviens-toi|retiens|enregistre)\b|\b(?:recuerda|memoriza"
            r"|guarda en (?:tu )?memoria|lembre-se|memorize|ricorda(?:ti)?)\b|запомни|"
            r"(?:记住|牢记|请记|記住)|覚えて|記憶して",
        ),
        (
            "memory_write",
            4,
            r"\b(?:learn|treat|keep|store|save|remember|record|adopt|accept)s? (?:this|it"
            r"|that|the following|these) (?:as )?(?:an? |your |the )?(?:project |new "
            r"|permanent |standing |user |team )?(?:rules?|conventions?|memor(?:y|ies)"
            r"|lessons?|preferences?|facts?|instructions?|polic(?:y|ies))\b",
        ),
        (
            "memory_write",
            2,
            r"\b(?:learned|standing|permanent|new|global) (?:rule|preference|instruction"
            r"|policy|directive|memory)\s?[:=]|\b(?:add|append|put|set|enable"
            r"|write)\b[^.\n]{0,40}\b(?:allow(?:ed)?[ _-]?(?:list|tools|commands)"
            r"|permissions|settings\.json|bypasspermissions|CLAUDE\.md|AGENTS\.md"
            r"|\.cursorrules)\b",
        ),
        (
            "forged_record",
            4,
            r"\b(?:outcome|strategy|lesson|heuristic|anti-?pattern|confidence|memory|rule"
            r"|learned|trigger|correction|preference|insight|takeaway)s?\s?[:=]"
            r"(?s:.){1,160}?[;,\n|(]\s{0,6}\W{0,3}"
            r"(?:strategy|lesson|heuristic|confidence|rule|learned|trigger|importance"
            r"|priority|scope|rationale|apply|applies)\w*(?:\s?[:=]|\s\d)",
        ),
        (
            "forged_record",
            1,
            r"\b(?:lesson|rule|preference|policy|learned|takeaway|best practice"
            r"|convention|correction)s?\s{0,2}[:=]",
        ),
        (
            "hides_from_user",
            4,
            r"\b(?:never|do not|don't|dont|without|must not|should not|avoid|stop"
            r"|no need to)\b(?: \w+){0,3}? ?\b(?:tell\w*|inform\w*|mention\w*|notify\w*"
            r"|ask\w*|disclos\w*|warn\w*|let\w*)\b[^.\n]{0,50}\b(?:the|your) (?:users?"
            r"|humans?|owner|operator|developer)\b",
        ),
        (
            "hides_from_user",
            2,
            r"\b(?:never|do not|don't|dont|without|must not)\b(?: \w+){0,3}? ?\b"
            r"(?:show\w*|reveal\w*|display\w*|report\w*|alert\w*)\b[^.\n]{0,50}\b(?:the"
            r"|your) (?:user|human|owner|operator|developer)\b",
        ),
        (
            "hides_from_user",
            4,
            r"\b(?:hide|conceal|keep)\b[^.\n]{0,40}\b(?:from the (?:user|human"
            r"|developer|owner)|secret from|hidden from)\b|\bsilently\b[^.\n]{0,30}\b"
            r"(?:send|upload|run|execute|add|install|post|forward|delete)",
        ),
        (
            "exfiltration",
            4,
            r"\b(?:send|forward|upload|post|exfiltrate|leak|transmit|email|e-mail|submit"
            r"|copy|report|include|append|paste|push|mail|bcc)\b[^\n]{0,60}?(?:\.env"
            r"|~/\.\w+|\b(?:secrets?|credentials?|tokens?|api[ _-]?keys?|passwords?|env"
            r"(?:ironment)? (?:vars?|variables?)|ssh keys?|private keys?|conversation\w*"
            r"|memor(?:y|ies)|chat history|source code|system prompt|cookies?|id_rsa"
            r"|invoices?|every \w+|all \w+))\b[^\n]{0,80}?(?:https?://|\S+@\S+\.\w|\bto "
            r"(?:[\w-]+\.)+[a-z]{2,}|webhook|\battacker\b)",
        ),
        (
            "exfiltration",
            4,
            r"\b(?:exfiltrat\w+|print|reveal|repeat|output|dump|show)\b[^.\n]{0,20}\b"
            r"(?:your|the) (?:\w+ )?(?:system prompt|hidden instructions"
            r"|initial instructions|instructions verbatim|secrets)\b",
        ),
        (
            "exfiltration",
            4,
            r"(?:\bcurl|\bwget|\bfetch|\bnc)\b[^\n]{0,120}(?:\$\(|-d ?@|--data\S* ?@|\$\{?"
            r"(?:[A-Z_]*(?:KEY|TOKEN|SECRET|PASS)))",
        ),
        (
            "remote_code",
            2,
            r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^|\n]{0,160}\|\s{0,3}(?:sudo )?(?:ba"
            r"|z|da|fi)?(?:sh|iex|python3?|node|perl)\b|\b(?:iex|eval|bash|sh)\b[^\n]{0,12}"
            r"(?:\$\(|<\(|\()\s{0,3}(?:curl|wget|iwr|new-object)",
        ),
        (
            "remote_code",
            3,
            r"\b(?:fetch|download|visit|open|load|read|get"
            r"|follow)\b[^.\n]{0,40}https?://\S+[^\n]{0,40}\b(?:and |then )+(?:\w+ )?"
            r"(?:follow|obey|execute|run|do|apply|install|comply)\b",
        ),
        ("standing_order", 2, rf"\b{_STANDING}\b|(?:从现在|今后|总是|始终|今後|これから|常に|всегда)"),
        (
            "addresses_reader",
            1,
            r"\b(?:you|your) (?:should|must|shall|need|have to|are to|may|can now|will"
            r"|always|never|are (?:required|allowed|authori[sz]ed|permitted))\b|\b"
            r"(?:so|require|ensure|insist)\w* that you\b",
        ),
        (
            "harmful_advice",
            2,
            rf"(?<!\bnot )(?<!\bnever )(?<!\bdon't )(?<!\bavoid )(?<!\bno )(?<!\bto )"
            rf"(?<!\bcannot )\b(?<!-){_HARM}|(?:^|\s)(?:--no-verify|--dangerously\S*"
            rf"|--unsafe\S*|--yolo)|(?:删除|削除)(?:所有|全部|すべて)?",
        ),
        (
            "too_sure",
            2,
            r"\b(?:works? (?:every|each) time|(?:the )?(?:right|correct|only|best) (?:fix"
            r"|solution|way|answer) is (?:always|to)|confidence\W{0,3}(?:1(?:\.0+)?|100 ?%"
            r"|high)|100 ?% (?:safe|success\w*)|guaranteed)\b",
        ),
        (
            "encoded",
            4,
            r"\b(?:decode|base64|rot13|decipher|unescape)\b[^\n]{0,80}\b(?:and |then )+"
            r"(?:\w+ )?(?:run|execute|follow|obey|apply|do|eval|comply|act)\b|\bbase64 (?:-d"
            r"|--decode|-D)\b[^\n]{0,20}\|\s{0,3}(?:ba|z)?sh\b",
        ),
        (
            "hidden_text",
            4,
            r"(?:display:\s?none|visibility:\s?hidden|font-size:\s?0|opacity:\s?0(?!\.)"
            r"|color:\s?(?:white|#fff(?:fff)?|transparent)\b)[^>\n]{0,80}>[^<]{0,200}\b"
            r"(?:you|assistant|ai|agents?|ignore|always|never|remember|instructions?"
            r"|llm)\b",
        ),
        (
            "hidden_text",
            2,
            r"<!--[^>]{0,300}\b(?:you|assistant|ai|agents?|ignore|remember|instructions?"
            r"|llm|claude|always|never)\b",
        ),
        (
            "delayed_trigger",
            2,
            r"\b(?:when(?:ever)?|if|once|after|next time|as soon as|wenn|quand"
            r"|cuando)\b[^.\n]{0,12}\b(?:the |der |l'|el )?(?:user|human|nutzer"
            r"|utilisateur|usuario)\b[^.\n]{0,30}\b(?:says?|asks?|types?|mentions?"
            r"|requests?|writes?|sagt|dit|dice|demande|opens?|approves?)\b",
        ),
    )
)
# Data keeps its keys in quotes too, so quotes excuse only what people quote.
_QUOTABLE = frozenset({"override", "persona"})
_QUOTES = "\"'`“”‘’«»"


def _mentioned(match: re.Match[str]) -> bool:
    """A phrase set wholly in quotes is talked about, not said: `block "ignore previous instructions"`."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
    return bool(before) and bool(after) and before in _QUOTES and after in _QUOTES


def signals(text: str) -> dict[str, int]:
    """Which signs the text bears, and how much each weighs."""
    points: dict[str, int] = {}
    for reason, weight, pattern in _SIGNALS:
        if points.get(reason, 0) < weight:
            said = (match for match in pattern.finditer(text) if reason not in _QUOTABLE or not _mentioned(match))
            if next(said, None):
                points[reason] = weight
    return points
