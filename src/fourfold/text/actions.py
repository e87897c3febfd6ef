"""Actions in a query: in "log out without saving" and "Update ohne Neustart" every word tells what to find.

Things are asked for by what they lack ("restaurants without fish"), but an action is named by how it is done: texts
about it contain both words. Taken for an action: a verb or the name of an action before `without`, a gerund with an
object after it ("without losing data"), an infinitive ("ohne zu speichern", "ohne Konto einrichten"), and what only
actions are without ("without notice", "ohne Neustart").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from fourfold.text.fold import fold


def _words(listed: str) -> frozenset[str]:
    return frozenset(map(fold, listed.split()))


_ACTIONS: Final = _words(
    "abort activate allocate apply approve archive assign attach authenticate authorize backup bind bypass calculate "
    "cancel checkout clone commit compare compile compress compute configure connect convert copy create "
    "decrypt delete deploy detach detect disable disconnect download eject embed enable encrypt escape evaluate "
    "export extend extract force generate implement import initialize insert install integrate iterate launch login "
    "logoff logout merge migrate modify mount mute optimize overwrite parse paste publish pull push quit reboot "
    "recover redirect refresh register reinstall reload remove rename repair replace reset resize resolve restart "
    "restore resume revert rollback save schedule setup shutdown signin signup simulate solve sort startup submit "
    "suspend sync terminate transfer transform translate trigger troubleshoot uninstall unlock unmount unsubscribe "
    "update upgrade upload validate verify wipe activation authentication authorization cancellation compilation "
    "configuration conversion deletion deployment detection dismissal enrollment eviction execution inference "
    "installation integration migration payment registration removal replacement resignation restoration submission "
    "synchronization termination upgrades updates "
    "abbrechen abmelden aktivieren aktualisieren anmelden archivieren ausführen ausloggen ausschalten austauschen "
    "auswerten beantragen bearbeiten beenden bezahlen drucken einloggen einrichten einschalten entfernen entpacken "
    "entsperren ersetzen erstellen exportieren freigeben herunterfahren herunterladen hochladen importieren "
    "installieren konfigurieren kopieren kündigen löschen neustarten öffnen reparieren schließen senden sichern "
    "sortieren speichern sperren starten stornieren teilen testen trennen übertragen umbenennen umziehen "
    "unterschreiben verbinden verlängern verlassen verschieben verschlüsseln verwenden wechseln wiederherstellen "
    "zurücksetzen abmeldung aktivierung aktualisierung anmeldung authentifizierung bezahlung datensicherung "
    "einrichtung entlassung freischaltung installation kündigung migration registrierung stornierung umstellung "
    "wiederherstellung"
)
"""Verbs and names of actions. Words that ask for things (find, show, book, buchen) are not among them."""
_ORDERS: Final = _words(
    "access add block boot build check close count cut debug edit exit fix flash format join kill leave load lock log "
    "loop move open patch pause print process read return rotate run scale send share sign split start stop swap "
    "switch test turn use view wait wrap write"
)
"""Verbs that are nouns or adjectives, too: only the first word of a query orders something."""
_MANNERS: Final = _words(
    "cause consent confirmation delay doubt downtime fail hassle help interruption interruptions loss notice "
    "permission prompt prompting reason reboot rebooting restart restarting risk success supervision warning "
    "ausfall ausfallzeit bedenken datenverlust einwilligung erlaubnis frist genehmigung grund hilfe neustart risiko "
    "rückfrage unterbrechung verzögerung voranmeldung vorwarnung zustimmung zutun"
)
"""An action is without them; a thing hardly ever is."""
_NOUNS_IN_ING: Final = _words(
    "advertising bedding boarding building camping catering ceiling charging climbing clothing coding cooking cooling "
    "dining dressing drinking evening filling fishing flooring frosting gaming heating hiking icing king lighting "
    "meeting morning parking pricing pudding ring seating shopping sibling skiing sleeping smoking spring steering "
    "string stuffing swimming thing topping tracking training waiting washing wedding wing wiring"
)
_REQUESTS: Final = _words("anzeigen auflisten buchen bestellen finden kaufen mieten suchen zeigen offen geschlossen")
"""German words in -en at the end of a query that asks for things."""
_WITHOUT: Final = _words("without sans ohne")
_INFINITIVE: Final = re.compile("[a-zäöüß]{2,}(?:en|ern|eln)")
_ZU_INSIDE: Final = re.compile("[a-zäöüß]{2,}zu[a-zäöüß]{2,}(?:en|ern|eln)")
_PHRASE_WORDS = 3
_GERUND: Final = re.compile("[a-z]{2,}ing")


def belongs_to_action(words: Sequence[str], place: int) -> bool:
    """Whether the `without` at this place of the words (as typed, with punctuation) says how an action is done."""
    if fold(words[place]) not in _WITHOUT:
        return False
    before, after = words[:place], words[place + 1 :]
    if not before or not after:
        return False
    if fold(before[0]) in _ORDERS or not _ACTIONS.isdisjoint(map(fold, before)):
        return True
    if not _MANNERS.isdisjoint(map(fold, after[:_PHRASE_WORDS])):
        return True
    if fold(words[place]) == "ohne":
        return _is_infinitive(before[-1]) or _has_infinitive(after)
    return _is_gerund(after[0]) and len(after) > 1 and after[1][0].isalnum()


def _is_gerund(word: str) -> bool:
    return _GERUND.fullmatch(word) is not None and word not in _NOUNS_IN_ING


def _is_infinitive(word: str) -> bool:
    """In lower case: nouns and names have capitals in German."""
    return _INFINITIVE.fullmatch(word) is not None and fold(word) not in _REQUESTS and not word.startswith("ge")


def _has_infinitive(after: Sequence[str]) -> bool:
    """Ohne neu zu starten, ohne sich abzumelden; or as the last word: ohne Konto einrichten."""
    with_zu = any(word == "zu" and _INFINITIVE.fullmatch(verb) for word, verb in pairwise(after))
    if with_zu or any(map(_ZU_INSIDE.fullmatch, after)):
        return True
    return "," not in after and len(after) > 1 and _is_infinitive(after[-1])
