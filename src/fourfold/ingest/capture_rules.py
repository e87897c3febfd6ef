"""The rules of capture: wordings that say what to remember, and wordings that say that something is not meant for good.

They are applied to sentences with single spaces. NAMED stands before what has a name: "take that" decides on nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

Kind = Literal["request", "preference", "decision", "correction", "fact"]


class Rule(NamedTuple):
    kind: Kind
    weight: float
    """Log odds."""
    pattern: re.Pattern[str]


_NAMED: Final = r"(?!(?:it|that|this|those|das|die|den|es)\s*(?:[.,;!]|$))"
_WE: Final = r"\b(?:we|the team|team)(?:'ve| have|'re| are|'ll| will| all)?"
_CLAUSE: Final = r"(?:^|[,;:] |\band |\bbut |\bso |\bbecause )"
_MONTHS: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
_MONATE: Final = r"(?:jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)\w*"
_RELATIVES: Final = r"(?:wife|husband|partner|son|daughter|sister|brother|mother|father|boss|dog|cat)"
_VERWANDTE: Final = r"(?:frau|mann|tochter|sohn|schwester|bruder|mutter|vater|chefin|chef|hund|katze)"
_EVENTS: Final = r"(?:birthday|exam|wedding|race|deadline|release|move|appointment|meeting|party)"
_PROJECTS: Final = r"(?:repo|repository|project|codebase|code base|app|team|family|company|house)"


def _any(*wordings: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in wordings).replace("NAMED", _NAMED), re.IGNORECASE)


RULES: Final = (
    Rule(
        "decision",
        2.2,
        _any(
            rf"{_WE} (?:\w+ )?(?:decided|settled|agreed|chose|opted)\b",
            r"^(?:it(?:'s| is) )?decided\b",
            r"\bthat(?:'s| is) decided\b",
            r"\bfinal decision\b",
            r"\blet's (?:record|note|state) that\b",
            r"\bwir(?: (?:haben|hatten))?(?: \w+){0,4} (?:entschieden|beschlossen|geeinigt|festgelegt)\b",
            r"\b(?:ist|sind) (?:jetzt )?(?:entschieden|beschlossen)\b",
            r"\bhalten wir fest\b",
            r"\bes bleibt (?:dabei|bei)\b",
            r"\bich habe mich (?:für|gegen|entschieden)\b",
        ),
    ),
    Rule(
        "decision",
        1.2,
        _any(
            r"\b(?:let's|let us) (?:go with|use|stick (?:to|with)|stay with|keep|take) NAMED",
            rf"{_WE} (?:stay|stick|go)(?: (?:with|to))?\b",
            rf"{_CLAUSE}{_WE} (?:drop|dropped|keep|remain|move|moved|switch|switched|leave) NAMED",
            r"\bI(?:'ll| will) (?:go with|stick with|stay with|use|take) NAMED",
            r"\bwir (?:nehmen|bleiben|machen|fahren|nutzen|verwenden|setzen|ziehen|wechseln|buchen) NAMED",
            r"\b(?:nehmen|buchen) wir NAMED",
            r"\b(?:lass|lasst) uns \w+.{0,40}\bnehmen\b",
            r"\bich (?:nehme|lege|bleibe|buche) NAMED",
            r"\b(?:nehme|buche) ich NAMED",
            r"\b\w+ (?:stays|bleibt),? (?:because|since|weil|da)\b",
        ),
    ),
    Rule(
        "preference",
        2.0,
        _any(
            r"\b(?:from now on|going forward|as a rule|on principle)\b",
            r"^in (?:(?:the )?future|general)\b",
            r"\b(?:ab jetzt|ab sofort|von jetzt an|künftig|zukünftig|in zukunft|grundsätzlich|generell)\b",
            r"\bI (?:\w+ )?(?:prefer|can't stand|cannot stand)\b",
            r"\bI(?:'d| would) (?:much )?rather\b",
            r"\bI (?:never|always|only|really (?:dis)?like|really don't like|don't want|dislike|hate)\b"
            r"(?! (?:it|that|this|you|thought|knew|\w+ed)\b)",
            r"\bI(?:'m| am) an? \w+ (?:learner|person|beginner)",
            r"\bich (?:bevorzuge|hasse)\b",
            r"\bich \w+ (?:\w+ ){0,3}(?:lieber|ungern|nie|niemals|immer|nur noch|keine[nmrs]?|nicht gern)\b",
            r"\blieber .{3,60}\bals\b",
            r"\b\w+ ich lieber\b",
            r"\bich will (?:\w+ ){0,4}(?:kein|nie|nicht|nur|immer)\w*",
        ),
    ),
    Rule(
        "preference",
        1.6,
        _any(
            r"\b(?:always|never)\b.{0,60}\b(?:in|for) (?:new|this|the|our|all|every|any)\b",
            r"^(?:so |and |but |also |please |ok |then )*(?:always|never|do not ever|don't ever|only ever)\b",
            r"\b(?:please|bitte)\b.{0,80}\b(?:always|never|only|every time|instead of|immer|nie|niemals|nur|statt)\b",
            r"\b(?:always|never|immer|niemals?|nie)\b.{0,60}\b(?:please|bitte)\b",
            r"\bplease (?:give|use|write|show|answer|keep|explain|call|format|speak)\b.{3,80}(?:,? not\b|\binstead\b)",
            r"\bbitte\b.{0,60}\b(?:auf (?:deutsch|englisch)|als tabelle|in einer tabelle|in stichpunkten)\b",
            r"\b(?:schreib|zeig|stell|erklär|gib)\w*\b.{0,50}\bbitte\b.{3,}",
            r"\b(?:wir duzen|wir siezen|call me|nenn mich)\b",
            r"\bsign (?:it|them) as\b",
        ),
    ),
    Rule(
        "preference",
        1.5,
        _any(
            rf"{_CLAUSE}{_WE} (?:always|never|only|usually|use|write|deploy|call|support|store|return)\b",
            rf"{_CLAUSE}{_WE} \w+ .{{3,60}}(?:, no | not | never )",
            r"\bwir (?:\w+ )?(?:immer|nie|niemals|nur|grundsätzlich|essen|benutzen|nutzen|verwenden|schreiben|geben)\b",
            r"\bbei uns\b",
            r"\b\w+s (?:must|have to|may) .{2,}",
            r"^(?:die |der |das )?\w+ (?:müssen|dürfen|muss|darf) .{2,}",
            r"^(?:all|every|alle|jede[rsn]?) [\w\s-]{2,40}\b(?:is|are|has|have|ist|sind|hat|haben)\b",
            r"\bour [\w\s-]{2,40}\b(?:is|are|has to|have to|must|always|never|have)\b",
            r"\bunsere?[nmrs]? [\w\s-]{2,40}\b(?:ist|sind|muss|müssen|haben)\b",
        ),
    ),
    Rule(
        "preference",
        1.0,
        _any(
            rf"\b(?:in|for|across) (?:this|our) {_PROJECTS}\b(?!,)",
            r"\bin (?:diesem|unserem) (?:projekt|repo|team|code|haushalt)\b",
        ),
    ),
    Rule(
        "preference",
        0.7,
        _any(rf"{_CLAUSE}{_WE} (?:don't|do not) \w+", r"\bwir (?:\w+ ){1,4}(?:nicht|kein\w*)\b"),
    ),
    Rule(
        "correction",
        1.6,
        _any(
            r"^(?:no|nope|stop)[,.!] .{0,40}\b(?:must|have to|has to|need to|never|always)\b",
            r"^(?:nein|nee|halt)[,.!] .{0,40}\b(?:muss|müssen|immer|nie|bei uns)\b",
            r"\b(?:is|are|it's|ist|sind|heißt) .{1,40}, (?:not|nicht) ",
            r"\bnot .{2,30}, but\b",
            r"\bnicht .{2,30}, sondern\b",
            r"^(?:hmm?,? |well,? |oh,? )*actually\b",
            r"^nicht ganz\b",
        ),
    ),
    Rule(
        "fact",
        2.0,
        _any(
            r"\b(?:I'm|I am|he is|she is|he's|she's|is) (?:\w+ )?(?:allergic|vegetarian|vegan|pregnant)\b",
            r"\b(?:ist|bin|sind) (?:\w+ ){0,4}(?:allergisch|vegetarier\w*|vegan|schwanger)\b",
        ),
    ),
    Rule(
        "fact",
        1.5,
        _any(
            rf"\bmy (?:\w+ )?(?:{_RELATIVES}|name)\b.{{0,30}}\b(?:is|was|are|has|hates|loves|lives)\b",
            r"\bmy [\w ]{2,20} (?:is|was) in \d{4}\b",
            rf"\bmeine? (?:\w+ )?(?:{_VERWANDTE}|name|adresse)\b.{{0,40}}\b(?:ist|heißt|hat|mag|wohnt)\b",
            rf"\b(?:his|her|my|the|their) {_EVENTS} is (?:on|at|in)\b",
            r"\bs?he (?:hates?|loves?|can't stand|lives?|works?)\b",
            r"\bI can(?:'t|not)\b.{3,60}\b(?:on|because|since|before|after|until)\b",
            r"\bich (?:arbeite|wohne|habe nur|heiße|bin (?:auf|seit|im|in)) .{3,}",
            r"\b(?:bin|arbeite|wohne) ich\b",
            r"\b(?:ist|sind|beginnt|findet) (?:\w+ )?(?:am|ab|vom|um|der|den) \d",
            rf"\b(?:is|are|starts?|starting) (?:now |on |at |from |the )*\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTHS}",
            r"\bowner is\b",
            r"\bis (?:now )?(?:owned|maintained|renewed|run|handled|done) by\b",
            rf"\bseit (?:{_MONATE}|\d{{4}})\b",
            r"\b(?:minimum|maximum|min|max|limit|budget|deadline)\b.{0,25}\b(?:is|of|are|ist)\b.{0,12}\d",
            r"\b(?:at most|höchstens) \w+",
        ),
    ),
)
REASON: Final = _any(r"\b(?:because|since|otherwise|weil|denn|da|damit|sonst)\b")
GENERAL: Final = _any(
    r"\b(?:always|never|only|everything|everywhere|every)\b",
    r"\b(?:immer|nie|niemals|nur|überall|alle[sn]?|jede[rsnm]?|grundsätzlich)\b",
)

# ---------------------------------------------------------------- what is not meant, or not for good

QUESTION: Final = _any(
    r"\? *$",
    r"^(?:and |so |but |ok |und |aber )?(?:what|why|how|who|when|where|which|can|could|should|would|do|does|did|is|are"
    r"|shall) (?:I|you|we|it|that|the|this|there)\b",
    r"^(?:und |aber )?(?:was|warum|wieso|wie|wer|wann|wo|welche[rsn]?|kannst|könnte|könntest|soll|sollen|sollte|sollten"
    r"|würde|würdest|hast|ist|sind|gibt) (?:du|ich|wir|es|das|die|der|man)\b",
)
HYPOTHETICAL: Final = _any(
    r"\b(?:maybe|perhaps|might|could|would|wonder|suppose|assuming|some ?day|eventually|I guess|not sure|what if)\b",
    r"\b(?:let me think|let's (?:see|try))\b",
    r"\b(?:vielleicht|eventuell|möglicherweise|könnten?|würden?|wäre|hätten?|irgendwann|mal sehen|angenommen)\b",
    r"\b(?:keine ahnung|glaube ich)\b",
    r"^(?:and |but |und |aber )?(?:if|wenn|falls)\b",
)
NOT_SERIOUS: Final = _any(
    r"\b(?:lol|haha\w*|rofl|lmao|yeah right|na toll|na super|ja klar)\b",
    r"[:;]-?[)DP](?: |$)",
    "[😂🤣😅😉🙃]",
    r"\b(?:oh|how) (?:wonderful|great|lovely|nice)\b",
    r"^(?:wow|toll|großartig)\b",
)
FLEETING: Final = _any(
    r"\bI (?:also )?(?:want|need) you to\b",
    r"\b(?:for now|right now|just this once|this time|today|tonight)\b",
    r"\b(?:erstmal|vorerst|fürs erste|heute|jetzt gerade|diesmal)\b",
)
TASK: Final = _any(
    r"^(?:in [^,]{3,30}, )?(?:now |also )?(?:add|change|check|create|delete|explain|fix|give|implement|install"
    r"|look|make|move|open|print|put|read|remove|rename|replace|run|see|show|suggest|test|try|undo|update)\b",
    r"^(?:bitte |jetzt )?(?:ändere|baue|benenne|ersetze|erstelle|entferne|füge|lies|lösche|mach|öffne|prüfe|starte"
    r"|verschiebe|zeig)\b",
)
"""Says what to do now."""
DANGLING: Final = _any(
    r"^(?:so |then |and |but |or |ok |dann |und |aber |oder )*(?:that|this|it|these|those|they|he|she|him|her|das|dies"
    r"|die|der|den|es|er|sie|davon|damit)\b(?! (?:team|repo|project|box|job|app|\w+'s) )",
    r"\b(?:want|need|find|like|use|do|drop) (?:this|that|it)\b",
)
"""Has a word for something that was said before."""
OPENING: Final = _any(
    r"^(?:(?:ok(?:ay)?|yes|yeah|yep|no|nope|nah|hm+|oh|ah|well|so|also|and|but|then|great|good|perfect|thanks|agreed"
    r"|fine|right|sure|btw|by the way|actually|one (?:last|more) thing|ugh|gut|ja|nein|nee|ach|und|aber|dann|übrigens"
    r"|super|moment)(?:[,.:!;…]+| -) *|(?:ok|okay|and|but|und|aber|gut|hm+|oh|ugh) )+",
)
"""Words at the beginning that add nothing."""
RETRACTION: Final = _any(
    r"\b(?:scrap (?:that|it)|forget (?:that|it|what I said)|never ?mind|on second thoughts?|revert (?:that|it))\b",
    r"\b(?:undo that|take that back|wait,? no|no wait|I changed my mind)\b",
    r"\b(?:doch nicht|doch lieber|vergiss (?:das|es)|dann lieber nicht|nehme ich zurück)\b",
    r", revert\b",
    r"^(?:hm+ )?no,? .{0,60}\brevert\b",
)

# ---------------------------------------------------------------- a choice between what was asked for

CHOICE: Final = _any(
    r"\b(?:which|should|shall|do we|what do we|how (?:often|long|many|much)|alternatives?|ideas)\b[^?]*\?",
    r"\b(?:welche[rsnm]?|sollen|sollten|nehmen wir|wie (?:lange|oft|viele?)|was nehmen)\b[^?]*\?",
    r"\b(?:or|oder) [^?]{2,60}\?",
)
CHOOSES: Final = _any(
    r"^(?:(?:ok(?:ay)?|good|fine|great|agreed|yes|gut|ja|super)[,.]? )?"
    r"(?:then|dann|take|use|go with|we take|wir nehmen|nehmen wir|it's)\b ?",
    r"\bthen[.,]",
    r"\bdann[.,]",
)
THANKS: Final = _any(r"^(?:thanks?|thx|danke|great|cool|nice|perfect|perfekt|awesome|interesting)\b")

# ---------------------------------------------------------------- examples, with which the encoder compares

KEPT: Final = (
    "We always use spaces for indentation in this project.",
    "We decided to use PostgreSQL because it needs no other service.",
    "I prefer short answers without a summary.",
    "Never push to the main branch directly.",
    "Our release day is Tuesday.",
    "My son is allergic to milk.",
    "The meeting is on 3 May in Vienna.",
    "Maria is responsible for the certificates.",
    "The minimum version is 2.4; older ones are not supported any more.",
    "Please use metric units from now on.",
    "Wir haben uns für die kleinere Lösung entschieden, weil sie billiger ist.",
    "Ich arbeite dienstags nicht.",
    "Bitte antworte mir immer auf Deutsch.",
    "Bei uns heißt der Zweig main, nicht master.",
    "Meine Schwester wohnt seit Mai in Graz.",
    "Der Termin ist am 4. Juni um 10 Uhr.",
)
LEFT: Final = (
    "Run the tests again.",
    "Fix the first two and show me the diff.",
    "Thanks, that looks great!",
    "I saw two errors in the output.",
    "The build is red again.",
    "Let's do the next step.",
    "Make it a bit larger and move it to the left.",
    "I have no idea what this means.",
    "It works now, push it.",
    "We should see what happens.",
    "Mach weiter.",
    "Das sieht gut aus, danke.",
    "Zeig mir die Liste noch einmal.",
    "Der Test ist immer noch rot.",
    "Das ist mir zu teuer.",
    "Dann nehmen wir das.",
)
