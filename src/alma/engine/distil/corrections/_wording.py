"""The rule in the person's own words: what is left when greetings, refusals, politeness and reasons are taken off."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._cues import Said, Sentence
from ._features import is_question
from ._names import is_program

MOST = 300
_SENTENCES = 2
_LISTED = 3

# What begins a sentence and says nothing of the rule; taken off again and again until nothing more comes off.
_OPENERS = re.compile(
    r"""^\s*(?:
      (?:nope|nah|uh+|hm+|um+|ah+|oh|hey|ok|okay|yes|yeah|yep|sorry|actually|please|pls|plz|seriously
        |honestly|ugh|argh|btw|fyi
        |and|but|so|also|alright|basically|for\ the\ record|in\ general|generally)(?:\s*[,.!:;…-]+\s*|\s+)
    | (?:by\ the\ way|for\ the\ future|for\ next\ time)\s*[,:]\s*
    | one\ (?:more\ |other\ |last\ )?thing\b[^:.]{0,50}:\s*
    | we(?:'ve|\ have)?\ (?:just\ |now\ |recently\ )?(?:(?:switched|changed(?:\ our\ minds?)?)\s*[:,]
      |(?:decided|agreed)\ (?:now\ )?(?:to\b|that\b))\s*
    | no+(?:\s*[,.!:;…-]+\s*|\s+(?=(?:no|wait|use|don't|dont|do|we|it|it's|i|you|the|that|that's|this
      |just|only|not|never|always|please|man|for)\b))
    | (?:man|dude|wait|well|look|listen|again|then|damn\ it|ffs|wtf|wth|important|great|good|perfect
      |nice|cool|thanks|thank\ you|rule|note
        |reminder|come\ on|jesus|stop)\s*[,.!:;…-]+\s*
    | (?:as|like)\ i\ (?:\w+\ )?(?:said|told\ you|mentioned|asked)(?:\ (?:before|already|earlier))?\s*[,:.-]*\s*
    | (?:how\ many\ times\ do\ i\ have\ to\ (?:say|tell\ you)(?:\ it|\ this)?
      |i(?:'ve|\ have)?\ (?:already\ )?told\ you(?:\ (?:already|before|that|\w+\ times(?:\ now)?))*)\s*[,:.-]*\s*
    | (?:i\ (?:already\ |just\ |clearly\ )?said)\s*(?::|,|to\b|that\b)?\s*
    | (?:that|this)(?:'s|\ is|s)\ (?:wrong|incorrect|not\ (?:right|correct|true|what\ i\ (?:asked(?:\ for)?
      |meant|wanted|said)|it))\s*[,.:;!-]+\s*
    | (?:you\ misunderstood(?:\ me)?|wrong\ \w+|not\ what\ i\ meant|not\ like\ this)\s*[,.:;!-]+\s*
    | (?:just\ )?(?:to\ )?(?:please\ )?(?:remember|keep\ in\ mind|bear\ in\ mind|don't\ forget
      |(?:i\ )?remind\ you|make\ a\ note)(?:\ (?:that|this))?\s*[:,]?\s+(?!to\b|not\b)
    | add\ (?:this|that)\ to\ (?:your\ )?memory\s*[:,]?\s*
    | (?:from\ now\ on|going\ forward|from\ here\ on|in\ (?:the\ )?future|next\ time|note\ for\ the\ future
      |starting\ now)\s*[,:]?\s*
    | (?:for|in|during)\ (?:this|the\ rest\ of\ (?:this|the)|the\ current)\ session(?:\ only)?\s*[,:]?\s*
    | (?:just\ for\ today|just\ this\ session|for\ now|for\ today|just\ for\ now)\s*[,:]?\s*
    | (?:can|could|would|will)\ (?:you|we|u)\ (?:please\ )?|i(?:'d|\ would)\ like\ you\ to\ |i\ (?:want
      |need|expect)\ you\ to\s+
    | make\ sure\ (?:that\ )?(?:you\ |to\ )|you\ (?:should|must|need\ to|have\ to|ought\ to|are\ to
      |were\ supposed\ to)\ (?=\w)(?!not\b|never\b|be\ )
    | let's\ agree\ that\ |the\ team\ agreed\ to\ |i\ generally\ |we\ want\ you\ to\s+
    )""",
    re.X | re.I,
)  # fmt: skip
_FOREIGN_OPENERS = re.compile(
    r"^\s*(?:(?:нет|да|ок|пожалуйста|слушай|no|sí|por\s+favor|nein|ja|bitte|non|oui|s'il\s+te\s+plaît"
    r"|não|sim|ne|ano|prosím"
    r"|不|不是|不对|好的?|请|いいえ|はい|아니|네)\s*[,，、.!。！:]+\s*|(?:пожалуйста|bitte|请)\s*)",
    re.I,
)
# Said of oneself or of all, turned into what to do.
_TURNED = tuple(
    (re.compile(pattern, re.I), put)
    for pattern, put in (
        (r"^you\s+(?:should|must)(?:\s+not|n't)\s+", "Do not "),
        (r"^i\s+always\s+(?:want|expect|need)\s+you\s+to\b", "Always"),
        (r"^you\s+(?:should|must)\s+never\s+", "Never "),
        (r"^you\s+(?:should|must|need\s+to|have\s+to)\s+be\s+using\b", "Use"),
        (r"^you\s+(?:don't|do\s+not)\s+(?:need|have)\s+to\b", "No need to"),
        (r"^(?:we|i)\s+(?:really\s+)?(?:don't|do\s+not)\s+(?:use|want)\s+you\s+to\b", "Do not"),
        (r"^we\s+(?:don't|do\s+not)\s+use\b", "Do not use"),
        (r"^we\s+never\b", "Never"),
        (r"^we\s+(?:always\s+|only\s+|all\s+)?(?=(?:use|write|run|store|keep|deploy|put|name|avoid)\b)", ""),
        (r"^(?:i|we)(?:'d|\s+would)?\s+(?:\w+ly\s+|much\s+|always\s+)?prefer\s+(?:you\s+)?(?:to\s+)?", "Prefer "),
        (r"^(?:i|we)(?:'d|\s+would)?\s+rather\s+(?:have\s+)?", "Prefer "),
        (r"^my\s+preference\s+is\s+", "Prefer "),
        (
            r"^i\s+(?:really\s+)?(?:like|love)\s+(?!to\b|it\b|that\b|this\b|how\b|the\b|when\b|if\b|what\b|your\b)",
            "Prefer ",
        ),
        (
            r"^(?:i|we)\s+(?:don't|do\s+not)\s+(?:want|need)\s+(?:any\s+|the\s+|a\s+)?(?!to\b|it\b|that\b"
            r"|this\b|you\b|them\b)",
            "No ",
        ),
        (r"^(?:i|we)\s+(?:don't|do\s+not)\s+want\s+(?:you\s+)?to\b", "Do not"),
        (r"^(?:stop|quit|cease)\s+(?=\w+ing\b)", "Avoid "),
        (r"^(?:you\s+)?(?:always\s+)?(?:remember\s+)?(?:not\s+to)\b", "Do not"),
        (r"^dont\b", "Don't"),
        (r"^it's\s+(?=[`\w./-]+(?:\s[`\w-]+)?,?\s+not\s)(?!called|spelled|a\b|the\b|just\b)", "Use "),
    )
)
_BARE_CHOICE = re.compile(r"^([`\w./@-]+),?\s+not\s+([`\w./@-]+)\W*$", re.I)
_CHOICE = re.compile(
    r"(?<=[`\w./-])(?<!should)(?<!must)(?<!\bdo)(?<!does)(?<!did)(?<!\bis)(?<!are)(?<!was)(?<!were)(?<!can)(?<!will)(?<!may)"
    r"(?<!would)(?<!could)(?<!\band)(?<!\bif)(?<!\bor)(?<!has)(?<!have)(?<!need)(?<!why)(?<!said)\s+not\s+(?=[`\w./-]+\W*$)",
    re.I,
)
_TRAILERS = re.compile(
    r"[\s,](?:[\s,!.?]*+(?:please|pls|plz|thanks|thank\s+you|thx|okay|ok|man|dude|from\s+now\s+on|going\s+forward"
    r"|ffs|wtf|for\s+(?:god's|fuck's)\s+sake"
    r"|as\s+i\s+said|like\s+i\s+said|:[/()D])(?![^\s,!.?]))++[\s!.?]*+$",
    re.I,
)
_SWEARING = re.compile(
    r"\b(?:for\s+\w+'?s\s+sake[,.!]*|(?:the\s+)?fuck(?:ing)?|goddamn|damn|bloody|shitty|freaking"
    r"|the\s+hell|on\s+earth|wtf|wth)(?!\w)\s*",
    re.I,
)
_REASON = re.compile(
    r"(?:\s*[,;.–—-]+\s*|\s+)(?P<mark>because|'cause|cuz|since(?!\s+(?:yesterday|last))|otherwise"
    r"|or\s+else|as\s+it|due\s+to|so\s+that|so\s+they|so\s+we\s+(?:don't|can)"
    r"|weil|sonst|porque|parce\s+que|sinon|потому\s+что|иначе|protože|jinak|senão|(?:因为|否则|不然)(?=.))(?:(?<=[^\x"
    r"00-\u2fff])|\b)\s*(?P<why>.{4,})$",
    re.I,
)
_STATED = re.compile(
    r"(?:\s*[,;]\s*|\s+[-–—]\s+|\.\s+)(?P<why>(?:it|that|this|they|ci|we\s+(?:got|had|lost|don't\s+want\s+to)"
    r"|the\s+\w+(?:\s+\w+)?)(?:'s|\s+will|\s+would|'ll)?\s+"
    r"(?:always\s+)?(?:hangs?|breaks?|fails?|takes?|needs?|crash(?:es)?|slows?|blocks?|way\s+(?:faster"
    r"|slower)|too\s+slow|slow|burned|lose|deletes?|costs?|gets?|runs?\s+out|is\s+(?:slow|too"
    r"|way|just|deprecated|unsafe|generated)|faster|deprecated)\b.*)$",
    re.I,
)
# "Files you don't otherwise change": the word belongs to what stands before it.
_NO_REASON = re.compile(r"(?:n't|\b(?:not|would|will|could|you|that|which|is|are|be|and|ever))$", re.I)
_CARRY = {
    cue: weight
    for weight, cues in (
        (3, "forbid always_do not_contrast instead_of stop_doing avoid prefer from_now you_should"),
        (2, "use no_thing dislike we_use remember meant revert too unneeded should_be should_not only keep_to"),
        (2, "ask_first never always want_you instead"),
        (1, "told already in_there should when_rule wrong you_err forbid_any is_fact agent_way task"),
    )
    for cue in cues.split()
}
_ASKED = re.compile(r"(?:\W|and|so|ok|please|also)*(?:can|could|would|will) (?:you|we|u)\b", re.I)
_BARE_OPENING = re.compile(r"^\W*(?:no+|nope|nah|wait|stop|hm+|actually|sorry|ok|yes|please)\W*$", re.I)


_PLAIN_FIRST = re.compile(r"[a-z]+(?:'[a-z]+)?(?=[\s,!?:;]|\.?$|\.\s)|[^\W\d_a-zA-Z]")


@dataclass(frozen=True, slots=True)
class Wording:
    rule: str
    why: str
    said: str
    """The sentences it was made from, as they were said."""


def word(said: Said) -> Wording:
    """One or two sentences, and the reason that was given for them."""
    listed = [one for one in said.sentences if one.bulleted and _weight(one, 0) > 1]
    if len(listed) >= _LISTED:
        return Wording(
            _fit(["; ".join(_sentence(_cleaned(one.text)).rstrip(".;,") for one in listed)]), "", _as_said(listed)
        )
    chosen = _chosen(said.sentences)
    rules, reasons = [], []
    for one in chosen:
        rule, why = _without_reason(_cleaned(one.text))
        if rule:
            rules.append(_sentence(rule))
        if why:
            reasons.append(_sentence(why))
    if not reasons:
        reasons = _reason_after(said.sentences, chosen)
    return Wording(_fit(rules), _fit(reasons[:1]), _as_said(chosen))


def _as_said(sentences: list[Sentence]) -> str:
    return "\n".join(one.text for one in sentences)


def _chosen(sentences: tuple[Sentence, ...]) -> list[Sentence]:
    """The sentences that carry the rule, in the order they were said."""
    weighed = [(_weight(one, number), number) for number, one in enumerate(sentences)]
    best = sorted((pair for pair in weighed if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
    top = best[0][0] if best else 0
    numbers = sorted(number for weight, number in best[:_SENTENCES] if 2 * weight >= top)
    return [sentences[number] for number in numbers] or list(sentences[:1])


def _weight(one: Sentence, number: int) -> float:
    if _BARE_OPENING.match(one.text):
        return 0
    weight = sum(_CARRY.get(cue, 0) for cue in one.cues) + 0.5
    if is_question(one.text, one.cues) and "request" not in one.cues:
        weight *= 0.4
    return weight - 0.1 * number


def _cleaned(text: str) -> str:
    held = ""
    asked = _ASKED.match(text)
    text = _SWEARING.sub("", text.replace("’", "'"))
    while held != text:
        held = text
        text = _FOREIGN_OPENERS.sub("", _OPENERS.sub("", text))
        text = text if text.strip() else held
        if text == held:
            break
    for pattern, put in _TURNED:
        text = pattern.sub(put, text)
    text = _BARE_CHOICE.sub(r"Use \1, not \2", text)
    text = _CHOICE.sub(", not ", _TRAILERS.sub("", text)).strip(" ,;:-–—")
    return text.rstrip("? ") if asked else text


def _without_reason(text: str) -> tuple[str, str]:
    found = _REASON.search(text) or _STATED.search(text)
    if not found or found.start() < 6 or _NO_REASON.search(text[: found.start()]):
        return text, ""
    why = (
        found["why"]
        if found.re is _STATED or found["mark"].lower() in ("because", "'cause", "cuz")
        else _kept_mark(found)
    )
    return text[: found.start()].rstrip(" ,;:-–—"), why.strip()


def _kept_mark(found: re.Match[str]) -> str:
    """ "Otherwise it hangs" needs its first word; "since it hangs" does not."""
    dropped = ("since", "weil", "porque", "因为", "потому что", "protože", "parce que", "due to")
    return found["why"] if found["mark"].lower() in dropped else f"{found['mark']} {found['why']}"


def _reason_after(sentences: tuple[Sentence, ...], chosen: list[Sentence]) -> list[str]:
    for one in sentences:
        if one not in chosen and "why" in one.cues and not is_question(one.text, one.cues):
            return [_sentence(re.sub(r"^(?:because|since)\s+", "", _cleaned(one.text), flags=re.I))]
    return []


def _sentence(text: str) -> str:
    text = " ".join(text.split()).rstrip(" ,;:-–—!")
    if not text:
        return ""
    # A name keeps its case: npm, src/gen, useEffect.
    plain = _PLAIN_FIRST.match(text) and not is_program(text.split()[0].rstrip(",:;.!?"))
    return text[0].upper() + text[1:] if plain else text


def _fit(parts: list[str]) -> str:
    if not parts:
        return ""
    text = " ".join(part if part[-1:] in ".!?。！？…" else f"{part}." for part in parts[:-1])
    last = parts[-1].rstrip(".") if not text else parts[-1]
    text = f"{text} {last}".strip()
    return text if len(text) <= MOST else text[: MOST - 1].rsplit(" ", 1)[0] + "…"
