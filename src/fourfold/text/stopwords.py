"""Stop words by language, which are also used to detect languages."""

from __future__ import annotations

from functools import cache

from fourfold.text.fold import caseless, fold

_NO_WORDS: frozenset[str] = frozenset()

_LISTS = {
    "en": """
        a about above after again against all also am an and any are aren as at be because been before being below between
        both but by can cannot could couldn did didn do does doesn doing don down during each either etc ever few for from
        further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its
        itself just ll m may me might more most much must mustn my myself neither no nor not now of off on once only or
        other ought our ours ourselves out over own per re s same shall she should shouldn so some such t than that the
        their theirs them themselves then there these they this those though through thus to too under until up upon us ve
        very was wasn we were weren what when where whether which while who whom whose why will with within without won
        would wouldn yet you your yours yourself yourselves""",
    "de": """
        ab aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes anders auch auf aus
        außer bei beim bereits bevor bin bis bist bzw da dabei dadurch dafür dagegen daher damit danach dann daran darauf
        daraus darf darin darüber darum das dass daß davon davor dazu dein deine deinem deinen deiner deines dem den denen
        denn der deren des deshalb dessen dich die dies diese dieselbe dieselben diesem diesen dieser dieses dir doch dort du
        durch dürfen ebenso ein eine einem einen einer eines einige einigem einigen einiger einiges er es etwa etwas euch
        euer eure eurem euren eurer eures falls für gegen gewesen gibt hab habe haben hast hat hatte hätte hatten hätten hier
        hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist ja jede jedem jeden jeder jedes
        jedoch jene jenem jenen jener jenes jetzt kann kannst kein keine keinem keinen keiner keines können könnte konnte
        konnten könnten man manche manchem manchen mancher manches mehr mein meine meinem meinen meiner meines mich mir mit
        möchte möchten muss müssen musste nach nachdem nein nicht nichts noch nun nur ob obwohl oder ohne schon sehr sei sein
        seine seinem seinen seiner seines seit selbst sich sie sind so sobald solche solchem solchen solcher solches soll
        sollen sollte sollten sondern sonst sowie sowohl über um und uns unser unsere unserem unseren unserer unseres unter
        vom von vor wäre wären während wann war waren warum was weder wegen weil welche welchem welchen welcher welches wem
        wen wenn wer werde werden weshalb wessen wie wieder wieso will wir wird wirst wo wodurch wofür woher wohin womit
        woran worden wurde würde wurden würden z zu zum zur zwar zwischen""",
    "fr": """
        à ai ainsi alors après as au aucun aucune aussi autre autres aux avait avant avec avez avoir avons ayant c ça car ce
        ceci cela celle celles celui ces cet cette ceux chaque chez comme comment d dans de depuis des deux dont donc du elle
        elles en encore entre est et étaient était étant été être eu eux fait il ils j je jusqu l la là le les leur leurs
        lorsque lui m ma mais me même mes moi mon n ne ni nos notre nous on ont ou où par parce pas peu peut plus pour
        pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si soit son sont sous sur t ta te tes
        toi ton tous tout toute toutes très tu un une vers vos votre vous y""",
    "es": """
        a al algo algunas alguno algunos ante antes aquel aquella así aún aunque cada como cómo con contra cual cuál cuales
        cuando cuándo de del desde donde dónde dos durante e el él ella ellas ellos en entre era eran es esa esas ese eso esos
        esta está están estas este esto estos fue fueron ha había han hasta hay la las le les lo los más me mi mí mis mucho
        muchos muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque pues que qué
        quien quién quienes se sea ser si sí sido sin sino sobre son su sus también tan tanto te tiene tienen todo todos tu
        tú tus un una uno unos usted ustedes y ya yo""",
    "it": """
        a ad agli ai al alla alle allo anche ancora avere aveva c che chi ci come con contro cosa così cui d da dagli dai dal
        dalla dalle dallo degli dei del dell della delle dello di dopo dove e è ed era erano essere fra gli ha hanno ho i il
        in io l la le lei li lo loro lui ma me mi mia mio molto ne negli nei nel nell nella nelle nello no noi non nostra
        nostro o ogni ora per perché però più poi prima quale quali quando quella quelle quelli quello questa queste questi
        questo qui se sei senza si sia siamo siete solo sono sta stato su sua sue sugli sui sul sull sulla sulle sullo suo
        suoi tra tu tua tuo tutti tutto un una uno vi voi""",
    "nl": """
        aan al alle als altijd andere ben bij daar dan dat de den der deze die dit doch doen door dus een en er ge geen geweest
        haar had heb hebben heeft hem het hier hij hoe hun ik in is ja je jij jullie kan kon kunnen maar me meer men met mij
        mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw van veel
        voor waar waarom wanneer want waren was wat werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo
        zonder zou zouden zullen""",
    "pt": """
        a à ao aos aquela aquele aquilo as às até cada com como da das de dela dele deles depois do dos e é ela elas ele eles
        em entre era eram essa esse esta está estão estas este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo
        meu meus minha muito na nas não nem no nos nós nossa nosso num numa o onde os ou para pela pelas pelo pelos por porque
        porquê qual quando que quem são se seja sem ser será seu seus só sobre sua suas também te tem têm tinha todo todos tu
        um uma uns você vocês""",
}

LANGUAGES = tuple(_LISTS)


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the folded stop words of a language; empty for a language without a list."""
    return frozenset(map(fold, _LISTS[language].split())) if language in _LISTS else _NO_WORDS


@cache
def languages_of_stop_words() -> dict[str, tuple[str, ...]]:
    """Map each stop word (caseless, also as written without umlauts) to its languages."""
    table: dict[str, tuple[str, ...]] = {}
    for language, listed in _LISTS.items():
        forms = {form for word in listed.split() for form in _spellings(word, language)}
        for form in sorted(forms):
            table[form] = (*table.get(form, ()), language)
    return table


def _spellings(word: str, language: str) -> tuple[str, ...]:
    return (caseless(word), fold(word)) if language == "de" else (caseless(word),)
