"""Made-up things with several facts each, and questions about facts that are stored and about others that are not.

The things are persons, services and products. Each kind has attributes with a statement and two questions in English
and German; of each thing about half of the attributes are stored: in one titled note, as untitled facts beside a
titled description, or as untitled facts alone. A question about an attribute that is not stored is a near miss: it
names something known, and other things have the attribute. `FOREIGN` asks the things of the demo for what is not there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fourfold import NewItem

SEED = 35
STORED = 5
"""Attributes of a thing that are stored."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """`{}` is the name of the thing, `{v}` the value."""

    name: str
    values: Sequence[str]
    english: tuple[str, str, str]
    """A statement and two questions."""
    german: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    names: Sequence[str]
    english: str
    german: str
    attributes: Sequence[Attribute]


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    thing: str
    answer: str | None
    """The key of the item that answers; None: nothing does."""


def _a(name: str, values: str, english: tuple[str, str, str], german: tuple[str, str, str]) -> Attribute:
    return Attribute(name, values.split("|"), english, german)


PERSONS = Kind(
    (
        *("Mira Hoffmann", "Jonas Brandt", "Selin Kaya", "Tom Ellery", "Ines Marquardt", "Pavel Novak", "Ada Winther"),
        *("Rosa Delgado", "Henk Visser", "Lina Falk", "Otto Baumann", "Grace Okafor", "Yuki Tanabe", "Marta Kowal"),
        *("Felix Arnold", "Nora Lindqvist", "Samuel Reyes", "Klara Seidel", "Dario Conti", "Wanda Pohl"),
    ),
    "{} is a colleague in our team.",
    "{} ist bei uns im Team.",
    (
        _a(
            "birthday",
            "4 May|12 November|30 January|19 August",
            ("{} was born on {v}.", "When is {}'s birthday?", "On which date was {} born?"),
            ("{} wurde am {v} geboren.", "Wann hat {} Geburtstag?", "An welchem Tag wurde {} geboren?"),
        ),
        _a(
            "allergy",
            "peanuts|shellfish|penicillin|soy",
            ("{} is allergic to {v}.", "What must {} not eat?", "Does {} have an allergy?"),
            ("{} ist allergisch gegen {v}.", "Was verträgt {} nicht?", "Welche Allergie hat {}?"),
        ),
        _a(
            "city",
            "Lisbon|Graz|Aarhus|Leipzig",
            ("{} lives in {v}.", "Where does {} live?", "Which city is {} at home in?"),
            ("{} wohnt in {v}.", "Wo wohnt {}?", "In welcher Stadt ist {} zu Hause?"),
        ),
        _a(
            "hobby",
            "bouldering|the cello|beekeeping|chess",
            ("In the evenings {} spends most of the time on {v}.", "What is {}'s hobby?", "What does {} do for fun?"),
            (
                "Abends beschäftigt sich {} am liebsten mit {v}.",
                "Welches Hobby hat {}?",
                "Was macht {} in der Freizeit?",
            ),
        ),
        _a(
            "coffee",
            "an oat flat white|a double espresso|green tea|filter coffee without milk",
            ("{} always orders {v}.", "What does {} drink?", "Which coffee should I get for {}?"),
            ("{} bestellt immer {v}.", "Was trinkt {}?", "Welchen Kaffee soll ich für {} holen?"),
        ),
        _a(
            "phone",
            "0151 2338|0170 4412|0162 9021|0157 7300",
            ("{} can be reached at {v}.", "What is {}'s phone number?", "How can I call {}?"),
            ("{} ist unter {v} zu erreichen.", "Welche Telefonnummer hat {}?", "Wie kann ich {} anrufen?"),
        ),
        _a(
            "degree",
            "physics|linguistics|civil engineering|biology",
            ("{} studied {v}.", "What did {} study?", "Which degree does {} have?"),
            ("{} hat {v} studiert.", "Was hat {} studiert?", "Welchen Abschluss hat {}?"),
        ),
        _a(
            "holiday",
            "the first week of June|Easter|the end of September|Christmas week",
            ("{} is away during {v}.", "When is {} on holiday?", "When will {} be out of office?"),
            ("{} ist abwesend: {v}.", "Wann hat {} Urlaub?", "Wann ist {} nicht im Büro?"),
        ),
        _a(
            "pet",
            "a greyhound called Pixel|two cats|a tortoise|a parrot",
            ("{} has {v}.", "Does {} have a pet?", "Which animal lives with {}?"),
            ("{} hat {v}.", "Hat {} ein Haustier?", "Welches Tier lebt bei {}?"),
        ),
        _a(
            "shoe",
            "38|41|43|45",
            ("{} needs safety boots in size {v}.", "What is {}'s shoe size?", "Which boots fit {}?"),
            ("{} braucht Sicherheitsschuhe in Größe {v}.", "Welche Schuhgröße hat {}?", "Welche Stiefel passen {}?"),
        ),
    ),
)

SERVICES = Kind(
    (
        *("Heron", "Gulls", "Kestrel", "Magpie", "Orchard", "Lantern", "Quarry", "Tidewater", "Cobalt", "Meridian"),
        *(
            "Foundry",
            "Harbinger",
            "Juniper",
            "Saltbox",
            "Palisade",
            "Windlass",
            "Thimble",
            "Bellows",
            "Cinder",
            "Atlas",
        ),
    ),
    "{} is one of our internal services.",
    "{} ist einer unserer internen Dienste.",
    (
        _a(
            "database",
            "Postgres 16|MySQL|DynamoDB|SQLite",
            ("{} keeps its data in {v}.", "Which database does {} use?", "Where does {} store its records?"),
            ("{} speichert seine Daten in {v}.", "Welche Datenbank nutzt {}?", "Worin legt {} seine Daten ab?"),
        ),
        _a(
            "port",
            "8081|9400|7070|5601",
            ("{} listens on port {v}.", "Which port does {} use?", "On which port can {} be reached?"),
            ("{} lauscht auf Port {v}.", "Welchen Port nutzt {}?", "Auf welchem Port ist {} erreichbar?"),
        ),
        _a(
            "payment",
            "Mollie|Stripe|Adyen|PayPal",
            ("{} charges cards through {v}.", "Which payment provider does {} use?", "How does {} take payments?"),
            ("{} bucht Zahlungen über {v} ab.", "Welchen Zahlungsanbieter nutzt {}?", "Womit kassiert {}?"),
        ),
        _a(
            "language",
            "Go|Kotlin|Elixir|Rust",
            ("{} is written in {v}.", "Which programming language is {} written in?", "What is {} implemented in?"),
            ("{} ist in {v} geschrieben.", "In welcher Programmiersprache ist {} geschrieben?", "Womit ist {} gebaut?"),
        ),
        _a(
            "owner",
            "the billing team|the platform group|Selin|the search crew",
            ("{} is maintained by {v}.", "Who maintains {}?", "Which team is responsible for {}?"),
            ("{} wird von {v} betreut.", "Wer betreut {}?", "Welches Team ist für {} zuständig?"),
        ),
        _a(
            "deploy",
            "every Tuesday at noon|after each merge|twice a month|on Sunday nights",
            ("{} is deployed {v}.", "When is {} deployed?", "How often do we release {}?"),
            ("{} wird ausgerollt: {v}.", "Wann wird {} ausgerollt?", "Wie oft veröffentlichen wir {}?"),
        ),
        _a(
            "timeout",
            "30 seconds|2 seconds|five minutes|800 ms",
            ("Requests to {} are cut off after {v}.", "What is the timeout of {}?", "How long may a call to {} take?"),
            (
                "Anfragen an {} brechen nach {v} ab.",
                "Welches Zeitlimit hat {}?",
                "Wie lange darf ein Aufruf von {} dauern?",
            ),
        ),
        _a(
            "designer",
            "Ines|Dario|an agency in Porto|Klara",
            ("The interface of {} was drawn by {v}.", "Who is the designer of {}?", "Who designed the screens of {}?"),
            ("Die Oberfläche von {} stammt von {v}.", "Wer hat {} gestaltet?", "Von wem ist das Design von {}?"),
        ),
        _a(
            "region",
            "eu-central-1|a rack in Falkenstein|us-east-1|the basement",
            ("{} runs in {v}.", "Where is {} hosted?", "In which region does {} run?"),
            ("{} läuft in {v}.", "Wo wird {} gehostet?", "In welcher Region läuft {}?"),
        ),
        _a(
            "backup",
            "every night at 2:15|hourly|on Saturdays|never, it can be rebuilt",
            ("Backups of {} are taken {v}.", "How often is {} backed up?", "When is the data of {} saved elsewhere?"),
            ("{} wird gesichert: {v}.", "Wie oft wird {} gesichert?", "Wann laufen die Backups von {}?"),
        ),
    ),
)

PRODUCTS = Kind(
    (
        *("Nimbus 4 kettle", "Torva drill", "Alba desk lamp", "Quill e-reader", "Vento fan", "Sora headphones"),
        *("Brisk mixer", "Peak tent", "Loom rug", "Ember stove", "Tern bicycle", "Cask thermos", "Glint watch"),
        *("Moss planter", "Dune sofa", "Frost fridge", "Pebble speaker", "Rook chess set", "Wren camera", "Hull canoe"),
    ),
    "We sell the {}.",
    "Wir verkaufen: {}.",
    (
        _a(
            "price",
            "49 euros|129 euros|320 euros|18 euros",
            ("The {} costs {v}.", "How much is the {}?", "What is the price of the {}?"),
            ("Das Produkt {} kostet {v}.", "Wie teuer ist {}?", "Was ist der Preis von {}?"),
        ),
        _a(
            "weight",
            "1.2 kg|340 grams|18 kg|7 kg",
            ("The {} weighs {v}.", "How heavy is the {}?", "What does the {} weigh?"),
            ("{} wiegt {v}.", "Wie schwer ist {}?", "Welches Gewicht hat {}?"),
        ),
        _a(
            "colour",
            "moss green|brick red|white and oak|graphite",
            ("The {} is available in {v}.", "Which colours does the {} come in?", "What colour is the {}?"),
            ("{} gibt es in {v}.", "Welche Farbe hat {}?", "In welchen Farben gibt es {}?"),
        ),
        _a(
            "warranty",
            "two years|five years|ten years|six months",
            (
                "We repair the {} free of charge for {v}.",
                "How long is the warranty of the {}?",
                "Is the {} under guarantee?",
            ),
            (
                "Wir reparieren {} kostenlos: {v}.",
                "Wie lange ist die Garantie auf {}?",
                "Welche Gewährleistung hat {}?",
            ),
        ),
        _a(
            "origin",
            "Portugal|Vietnam|a workshop in Ulm|Poland",
            ("The {} is made in {v}.", "Where is the {} produced?", "Which country does the {} come from?"),
            ("{} kommt aus {v}.", "Wo wird {} hergestellt?", "Aus welchem Land stammt {}?"),
        ),
        _a(
            "material",
            "steel|recycled plastic|ash wood|wool",
            ("The {} consists of {v}.", "What is the {} made of?", "Which material is used for the {}?"),
            ("{} besteht aus {v}.", "Woraus ist {}?", "Welches Material hat {}?"),
        ),
        _a(
            "battery",
            "eleven hours|three days|40 minutes|a month",
            (
                "A full charge of the {} lasts {v}.",
                "What is the battery life of the {}?",
                "How long does the {} run unplugged?",
            ),
            ("Eine Ladung von {} reicht {v}.", "Wie lange hält der Akku von {}?", "Wie lange läuft {} ohne Strom?"),
        ),
        _a(
            "stock",
            "14 pieces|none, more in March|220 pieces|3 pieces",
            (
                "In the warehouse there are of the {}: {v}.",
                "How many of the {} are in stock?",
                "Can the {} be delivered?",
            ),
            ("Im Lager liegen von {}: {v}.", "Wie viele Stück von {} sind auf Lager?", "Ist {} lieferbar?"),
        ),
        _a(
            "cleaning",
            "vinegar once a month|a dry cloth only|soap and water|the dishwasher",
            ("Clean the {} with {v}.", "How do I clean the {}?", "What removes stains from the {}?"),
            ("{} reinigt man mit {v}.", "Wie wird {} geputzt?", "Wie pflege ich {}?"),
        ),
        _a(
            "returns",
            "30 days|100 days|not at all|two weeks",
            ("Customers may send the {} back: {v}.", "Can the {} be returned?", "How long can I give the {} back?"),
            ("Rückgabe von {}: {v}.", "Kann man {} zurückgeben?", "Wie lange darf {} umgetauscht werden?"),
        ),
    ),
)

KINDS = (PERSONS, SERVICES, PRODUCTS)

FOREIGN = {
    "person": (
        *("Which blood type does {} have?", "What is {}'s middle name?", "Which school did {} go to?"),
        *("Wie groß ist {}?", "Welches Auto fährt {}?", "Wie heißt die Mutter von {}?", "What is {}'s star sign?"),
    ),
    "thing": (
        *("How many stars does {} have on GitHub?", "Who drew the logo of {}?", "Which licence fee does {} cost?"),
        *("Welche Bewertung hat {} bei Testern?", "Wann bekam {} einen Preis?", "Who is the competitor of {}?"),
    ),
}
"""Questions that nothing in the demo answers, by the kind of the things that are named."""


THINGS = frozenset(
    (
        *("Paketfuchs", "Tourenplaner", "Ledgerline", "Klingel", "Fensterplatz", "Rabenhorst", "Eichelhäher"),
        *("Nachtlicht", "Höhenlinie", "Speiche", "Brummer 3", "Dachs XL", "Kesselhaus", "Depot Nord", "Depot Süd"),
        *("Lastenrad Kollektiv", "Auenstadt"),
    )
)
"""Things of the demo that are no persons."""


def made_up() -> tuple[list[NewItem], list[Asked]]:
    """Items of all things, and all questions about them."""
    drawn = random.Random(SEED)
    items: list[NewItem] = []
    asked: list[Asked] = []
    number = 0
    for kind in KINDS:
        for name in kind.names:
            stored = drawn.sample(kind.attributes, STORED)
            german, shape = number % 2 == 1, number // 2 % 3
            texts = {each.name: _said(each, german).format(name, v=drawn.choice(each.values)) for each in stored}
            keys = _store(items, name, (kind.german if german else kind.english).format(name), texts, shape)
            asked += _questions(kind, name, keys, drawn, german=german)
            number += 1
    return items, asked


def _said(attribute: Attribute, german: bool) -> str:
    return (attribute.german if german else attribute.english)[0]


def _store(items: list[NewItem], name: str, head: str, texts: dict[str, str], shape: int) -> dict[str, str]:
    """The key of the item that has each attribute."""
    if shape == 0:
        items.append(NewItem(" ".join([head, *texts.values()]), title=name, key=name))
        return dict.fromkeys(texts, name)
    if shape == 1:
        items.append(NewItem(head, title=name, key=name))
    items.extend(NewItem(text, key=f"{name}/{attribute}") for attribute, text in texts.items())
    return {attribute: f"{name}/{attribute}" for attribute in texts}


def _questions(kind: Kind, name: str, keys: dict[str, str], drawn: random.Random, *, german: bool) -> Iterator[Asked]:
    """One question about each attribute; every fourth in the other language."""
    for attribute in kind.attributes:
        other = drawn.random() < 1 / 4
        forms = attribute.german if german != other else attribute.english
        yield Asked(drawn.choice(forms[1:]).format(name), name, keys.get(attribute.name))
