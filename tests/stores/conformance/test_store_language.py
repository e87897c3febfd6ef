"""German is found as German and English as English, in one store."""

import pytest
from conformance_subjects import NS, add, edit, ids, item, one, search

from fourfold.model import NO_FILTERS, Filters


@pytest.mark.spec("S1.9")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Vertrag", "Der Mietvertrag wurde unterschrieben"),
        ("Mietvertrag", "Wir haben den Vertrag und die Miete besprochen"),
        ("Vertrag", "Unser Vertragspartner ist verreist"),
        ("Häuser", "Das Haus ist verkauft"),
        ("Schluessel", "Der Schlüssel liegt unter der Matte"),
        ("Schlüssel", "Der Schluessel liegt unter der Matte"),
        ("STRASSE", "Wir wohnen in der Straße am See"),
        ("Kündigungen", "Die Kündigung kam zum Ende des Monats"),
        ("spielen", "Die Kinder spielten im Garten"),
        ("läuft", "Wir laufen morgen zum See"),
        ("gelaufen", "Er lief durch den Park"),
        ("Versicherung", "Die Krankenversicherungskarte liegt im Büro"),
        ("Mieten", "Die Mietpreisbremse gilt auch hier"),
        ("contract", "Two contracts were signed with the bank"),
        ("running", "She runs every morning in the park"),
        ("naive", "A naïve approach to the problem"),
        ("Cafe", "Wir treffen uns im Café am Markt"),
    ],
)
def test_words_are_found_in_other_forms(store, query, text):
    wanted, *_ = add(store, text, "Nothing of this is in the other notes", "Und hier steht auch nichts davon")
    assert search(store, "keyword", query) == [wanted]


@pytest.mark.spec("S1.9")
def test_the_language_of_an_item_is_detected_or_given(store):
    german, english, given = add(
        store,
        "Die Rechnung ist noch nicht bezahlt",
        "The invoice has not been paid yet",
        item("Die Hard", language="en"),
    )
    assert [one(store, id).language for id in (german, english, given)] == ["de", "en", "en"]


@pytest.mark.spec("S1.9", "B1")
@pytest.mark.parametrize(
    ("query", "share"),
    [
        ("Wann muss die Rechnung bezahlt werden?", 0.5),
        ("When does the invoice have to be paid?", 0.75),
        ("Quand faut-il payer la facture ?", 0.75),
        ("AX-5400", 0.0),
    ],
)
def test_the_share_of_items_in_the_other_language_is_known(store, query, share):
    add(
        store,
        "Die Rechnung ist noch nicht bezahlt",
        "Das Büro ist am Freitag nicht besetzt",
        "The invoice has not been paid yet",
        item("La facture n'est pas encore payée", language="fr"),
    )
    with store.snapshot(NS) as snapshot:
        assert snapshot.words.match(query, 10, NO_FILTERS).foreign == share
        assert snapshot.keyword_query(query).foreign == share


@pytest.mark.spec("S1.9")
def test_the_word_itself_ranks_above_its_compounds(store):
    compound, plain = add(store, "Der Mietvertrag liegt im Ordner", "Der Vertrag liegt im Ordner")
    assert search(store, "keyword", "Vertrag") == [plain, compound]


@pytest.mark.spec("S1.9")
def test_compounds_are_made_of_words_that_still_exist(store):
    """A word counts as a compound only as long as an item contains its parts as words."""
    compound, part = add(store, "Wir wohnen im Seehaus", "Der See ist tief und kalt")
    assert search(store, "keyword", "Haus") == [compound]
    edit(store, part, text="Das Wasser ist tief und kalt")
    assert search(store, "keyword", "Haus") == []
    edit(store, part, text="Der See ist wieder da")
    assert search(store, "keyword", "Haus") == [compound]
    store.forget(NS, [part])
    assert search(store, "keyword", "Haus") == []


@pytest.mark.spec("S1.9")
def test_stop_words_are_ignored_unless_the_query_has_no_other_words(store):
    house, _ = add(store, "Das Haus am See ist verkauft", "Der Hund ist nicht bei uns")
    assert search(store, "keyword", "wo ist das Haus") == [house]


@pytest.mark.spec("S1.2")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("get user name", "call getUserName() first"), ("getusername", "call getUserName() first"),
        ("get_user_name", "call getUserName() first"), ("user", "call get_user_name first"),
        ("HTTP-429", "the server answered HTTP 429 again"), ("429", "the server answered HTTP-429 again"),
        ("C++", "written in C++ and Rust"), ("node.js", "runs on Node.js only"), ("utf8", "decode as UTF-8 please"),
        ("v2.1.3", "released v2.1.3 yesterday"), ("東京", "東京都に住んでいます"),
    ],
)  # fmt: skip
def test_identifiers_are_found_whole_and_by_their_parts(store, query, text):
    wanted, *_ = add(store, item(text, language="en"), "nothing here", "nor there")
    assert search(store, "keyword", query) == [wanted]


@pytest.mark.spec("S1.2")
def test_best_first_by_relevance(store):
    often, once, never, long = add(
        store,
        "lease lease lease",
        "lease and nothing more",
        "nothing more at all",
        "a lease " + "and many other words about completely different matters " * 5,
    )
    found = store.match(NS, "lease", 9, NO_FILTERS)
    assert ids(found) == [often, once, long]
    assert never not in found.evidence


@pytest.mark.spec("B14")
def test_evidence_is_the_share_of_the_query_that_was_found(store):
    both, half = add(store, "router password", "router only")
    found = store.match(NS, "router password", 9, NO_FILTERS)
    assert found.evidence[both] == pytest.approx(1.0)
    assert 0 < found.evidence[half] < 0.5
    unknown = store.match(NS, "router zeppelin", 9, NO_FILTERS)
    assert 0 < unknown.evidence[both] < 0.5


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("resturant", "The restaurant at the harbour is closed"),
        ("Quarantne", "Die Quarantäne dauert zwei Wochen"),
        ("runnign", "She runs every morning in the park"),
    ],
)
def test_a_misspelt_word_finds_the_word_that_it_means(store, typed, text):
    wanted, *_ = add(store, text, "Nothing of this is in the other notes", "Und hier steht auch nichts davon")
    assert search(store, "keyword", typed) == [wanted]
    with store.snapshot(NS) as snapshot:
        (correction,) = snapshot.keyword_query(typed).corrections
        assert correction.items == (1,)
        assert snapshot.words.match(typed, 10, NO_FILTERS).notes == snapshot.keyword_query(typed).notes


def test_a_word_of_a_removed_item_is_not_a_correction(store):
    gone, stays = add(store, "The restaurant is closed", "The harbour is open")
    assert search(store, "keyword", "resturant harbuor") == [gone, stays]
    with store.transaction(NS) as transaction:
        transaction.items.forget([gone])
    assert search(store, "keyword", "resturant harbuor") == [stays]


def test_every_store_knows_how_much_of_it_is_code(store):
    code, *_ = add(store, "def double(number):\n    return 2 * number", "Notes about a double bed", "A return ticket")
    with store.snapshot(NS) as snapshot:
        found = snapshot.words.match("double a number", 10, NO_FILTERS)
        assert found.code == snapshot.keyword_query("double a number").code == pytest.approx(1 / 3)
        assert snapshot.words.match("double_number number", 10, NO_FILTERS).code == pytest.approx(1 / 6)
    with store.transaction(NS) as transaction:
        transaction.items.forget([code])
    with store.snapshot(NS) as snapshot:
        assert snapshot.words.match("double a number", 10, NO_FILTERS).code == 0


def test_items_that_have_all_given_words_are_listed(store):
    plural, single, german, *_ = add(
        store, "Two contracts of 2026 in Rome", "The contract of Rome", "Der Vertrag von Rom", "A ticket to Rome"
    )
    with store.snapshot(NS) as snapshot:
        assert {plural, single} <= set(snapshot.words.having(["contract", "Rome"], 4, NO_FILTERS))
        assert german in snapshot.words.having(["Vertrag"], 2, NO_FILTERS)
        assert list(snapshot.words.having(["contract"], 4, Filters(tags=("none",)))) == []
    with store.transaction(NS) as transaction:
        transaction.items.forget([plural])
    with store.snapshot(NS) as snapshot:
        assert list(snapshot.words.having(["contract"], 4, NO_FILTERS)) == [single]
