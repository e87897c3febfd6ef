"""Secrets are found by their form, made here at random: none is written into the repository."""

import base64
import json
import random
import string
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold.text.secrets import (
    KINDS,
    masked,
    masked_json,
    masked_parts,
    masks_in,
    may_hold_secrets,
    possible_kinds,
    secrets_in,
)

pytestmark = pytest.mark.spec("C16")

ROOT = Path(__file__).parents[3]
RANDOM = random.Random(20261117)
WORDS = string.ascii_letters + string.digits


def chars(count: int, alphabet: str = WORDS) -> str:
    """Random characters, always with a digit and a letter."""
    found = "".join(RANDOM.choice(alphabet) for _ in range(count - 2))
    return found + RANDOM.choice([each for each in alphabet if each.isdigit()] or ["A"]) + alphabet[-1]


def jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": chars(12), "iat": RANDOM.randrange(10**9)})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, chars(43)])


def pem() -> str:
    body = "\n".join(chars(64) for _ in range(6))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
MAKERS: dict[str, Callable[[], tuple[str, str]]] = {
    "private key": lambda: ("{}", pem()),
    "age key": lambda: ("{}", "AGE-SECRET-KEY-1" + chars(58, UPPER)),
    "aws access key": lambda: ("aws_access_key_id = {}", "AKIA" + chars(16, UPPER)),
    "aws secret key": lambda: ("AWS_SECRET_ACCESS_KEY={}", chars(40, WORDS + "/+" + "a")),
    "github token": lambda: ("use {} for the runner", "ghp_" + chars(36)),
    "gitlab token": lambda: ("git clone with {}", "glpat-" + chars(20)),
    "slack token": lambda: ("bot: {}", "xoxb-" + chars(12, string.digits) + "-" + chars(24)),
    "slack webhook": lambda: (
        "https://hooks.slack.com/services/{}",
        "T" + chars(9, UPPER) + "/B" + chars(9, UPPER) + "/" + chars(24),
    ),
    "anthropic key": lambda: ("ANTHROPIC: {}", "sk-ant-api03-" + chars(80)),
    "openai key": lambda: ("the key is {}.", "sk-proj-" + chars(48)),
    "stripe key": lambda: ("stripe {}", "sk_live_" + chars(24)),
    "google api key": lambda: ("maps: {}", "AIza" + chars(35)),
    "google oauth secret": lambda: ("{}", "GOCSPX-" + chars(28)),
    "hugging face token": lambda: ("export HF={}", "hf_" + chars(34)),
    "npm token": lambda: ("//registry/:_authToken={}", "npm_" + chars(36)),
    "pypi token": lambda: ("upload with {}", "pypi-" + chars(100)),
    "sendgrid key": lambda: ("{}", "SG." + chars(22) + "." + chars(43)),
    "digitalocean token": lambda: ("{}", "dop_v1_" + chars(64, HEX)),
    "azure storage key": lambda: ("AccountName=a;AccountKey={};EndpointSuffix=x", chars(86) + "=="),
    "json web token": lambda: ("curl -H 'X: {}'", jwt()),
    "authorization header": lambda: ("Authorization: Bearer {}", chars(40)),
    "password in an address": lambda: ("postgres://app:{}@db.internal:5432/app", chars(14)),
    "password": lambda: ('password = "{}"', chars(12)),
    "key or token": lambda: ("api_key: {}", chars(32)),
}


def test_synthetic_secrets_of_every_kind_are_found_and_masked() -> None:
    made = [(kind, *MAKERS[kind]()) for kind in MAKERS for _ in range(10)]
    assert len(made) >= 200
    assert len(MAKERS) >= 20
    missed: list[str] = []
    for kind, frame, secret in made:
        text = f"Note: {frame.format(secret)} and more text."
        hidden = masked(text)
        if secret in hidden:
            missed.append(kind)
            continue
        assert not any(part in hidden for part in (secret, secret[4:-4]))
        assert masks_in(hidden)
        assert masked(hidden) == hidden
    assert len(missed) <= 0.02 * len(made), missed


def lines_without_secrets() -> list[str]:
    own = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.py")]
    found = [line for path in sorted(own) for line in path.read_text("utf-8").splitlines() if len(line.strip()) > 20]
    standard = Path(sysconfig.get_path("stdlib"))
    for name in ("getpass", "secrets", "netrc", "smtplib", "ftplib", "imaplib", "hashlib", "hmac", "uuid", "tokenize"):
        found += [line for line in (standard / f"{name}.py").read_text("utf-8").splitlines() if len(line.strip()) > 20]
    for package in ("pydantic", "starlette", "click", "mcp"):
        spec = find_spec(package)
        assert spec.origin is not None
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            found += [line for line in path.read_text("utf-8").splitlines() if len(line.strip()) > 20]
    return found


def test_lines_of_code_and_prose_raise_at_most_a_few_false_alarms() -> None:
    """Of all lines, and of a thousand that have one of the words that make the scanner look closer."""
    lines = lines_without_secrets()
    assert len(lines) > 10_000
    hints = {hint.strip("^=@") for kind in KINDS for hint in kind.hints}
    suspicious = [line for line in lines if any(hint.lower() in line.lower() for hint in hints)]
    for some in (lines[:: len(lines) // 1000], suspicious[:: max(1, len(suspicious) // 1000)]):
        alarms = [line for line in some if secrets_in(line)]
        assert len(alarms) <= 0.005 * len(some), alarms


def test_metadata_is_masked_by_the_name_of_its_key() -> None:
    password, key = chars(12), "ghp_" + chars(36)
    hidden = masked_json(
        {"password": password, "passwords": [password], "list": [f"see {key}"], "n": 3, "deep": {"note": "plain"}}
    )
    assert hidden == {
        "password": "[secret: password]",
        "passwords": ["[secret: password]"],
        "list": ["see [secret: github token]"],
        "n": 3,
        "deep": {"note": "plain"},
    }


@pytest.mark.parametrize("frame", [
    "The password is {}", "Das Passwort ist {}!", "Das neue Passwort für Anna lautet: {}.", "Passwort vom Router: {}",
    "password for the guest wifi is {}, ask Bob", "Datenbankpasswort: {}", "export PGPASSWORD={}", 'dbPassword: "{}"',
    "curl -u admin:{} https://host.internal",
])  # fmt: skip
@pytest.mark.parametrize("password", ["Katze" + "1234", "x7$kQ%2" + "z", "blue-horse-" + "battery-9"])
def test_passwords_in_sentences_and_in_longer_names_are_masked(frame: str, password: str) -> None:
    assert masked(frame.format(password)) == frame.format("[secret: password]")


@pytest.mark.parametrize("frame", [
    "my PIN is {}", "Meine PIN ist {}.", "PIN: {}", "Die PIN der Karte lautet {}!",
    "The PIN code for the alarm: {}, ask Bob", "Passwort: {}", "The password is {}", "password = {}",
])  # fmt: skip
@pytest.mark.parametrize("digits", ["47" + "11", "0815" + "4711"])
def test_pins_and_passwords_of_digits_are_masked(frame: str, digits: str) -> None:
    assert digits not in masked(frame.format(digits))
    assert masks_in(masked(frame.format(digits)))


def test_an_encoded_password_in_an_address_is_masked() -> None:
    assert "%40" not in masked("postgresql://app:p%40ss" + "wort@db.internal/app")


def test_a_private_key_in_several_parts_of_a_text_is_masked_in_each() -> None:
    first, _, rest = pem().partition("\n")
    middle, _, last = rest.rpartition("\n")
    parts = ["before", f"then\n{first}", middle, f"{last}\nafter"]
    mark = "[secret: private key]"
    assert masked_parts(parts) == ["before", f"then\n{mark}", mark, f"{mark}\nafter"]
    assert masked_parts(["a", "password: " + "Katze1234"]) == ["a", "password: [secret: password]"]


HARD = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5sum d41d8cd98f00b204e9800998ecf8427e  empty.txt", "id = 123e4567-e89b-12d3-a456-426614174000",
    'uuid.UUID("urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8")',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    'base64.b64decode("SGVsbG8sIHdvcmxkISBUaGlzIGlzIGEgdGVzdC4=")',
    '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5Fvg=="',
    "password = getpass()", "password = getpass.getpass('Password: ')", "password = input('Your password: ')",
    "token = secrets.token_hex(16)", "api_key = os.environ['OPENAI_API_KEY']", "api_key=config.get('api_key')",
    "def login(user: str, password: str) -> Token:", "password: SecretStr", "password: str = Field(min_length=8)",
    'parser.add_argument("--password", help="the password")', "if password != stored_password:",
    "hashed = bcrypt.hashpw(password, salt)", "pwd: $PWD", "Enter PIN and press OK", "The PIN has 4 digits",
    "PIN: four digits", "GPIO pin: 1234 is not a pin of this board",
    "pin = 4711  # the number of the pin on the connector", "Password length is 12", "Das Passwort ist 12 Zeichen lang",
    "The password is 2 years old", "password expires in 2026", "the PIN of version 1.2.3.4", "spin: 1234",
    "pinned: 2024", "Bearer tokens are described in RFC 6750", "Authorization: Bearer <token>",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI user@host", "-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----",
    "key = (row['subject'], row['attribute'])", "primary_key = 'customer_id_2024_region'",
    "token: 128 tokens per second", "next_token = tokens[position + 1]", "https://example.com/reset?token={token}",
    "mongodb://localhost:27017/?replicaSet=rs0", "postgres://localhost:5432/app", "http://user@host:8080/",
    "secret_name: projects/demo/secrets/api-key/versions/latest", "client_secret: ${CLIENT_SECRET}",
    "AWS_SECRET_ACCESS_KEY=$(aws configure get secret)", "see docs/secrets.md#key-or-token",
    "AKIA is the prefix of an access key", "sk-learn is spelled scikit-learn", "ghp_ begins a token",
    "SHA1=da39a3ee5e6b4b0d3255bfef95601890afd80709", 'etag: W/"33a64df551425fcc55e4d42a148795d9f25f89d4"',
    "color: #4711ab", "ISBN 978-3-16-148410-0", "IBAN DE89 3704 0044 0532 0130 00", "Kennwort vergessen? Hier klicken",
    "Das Passwort wurde 2024 geändert", "The wifi password is in the blue folder", "password: required",
    'password = os.environ["PASSWORD"]', "token = tokenizer.next_token()", "api_key: str | None = None",
    "http://localhost:8080/path@home", "postgres://user:password@host/db", "the secret of good coffee = fresh beans",
    "PWD=/home/anna/project1", "pwd: C:\\Users\\anna2", "private_key: ~/.ssh/id_ed25519_work",
    "secret: k8s-secret-name-production-2", "token: process.env.GITHUB_TOKEN_V2", "password = user.password2",
    "sk-estuary-north-bay-2024-pipeline", "The password is base64-encoded", "Das Passwort ist SHA256-gehasht",
    "password for admin: see KeePass2", "the password is longer than 12 characters", "https://ci:${TOKEN}@host/x",
)  # fmt: skip
"""Hashes, ids, test data, types, calls and sentences: nothing of it is a secret."""


def test_what_only_looks_like_a_secret_stays_as_it_is() -> None:
    assert [line for line in HARD if secrets_in(line) or masked(line) != line] == []


AROUND = st.sampled_from(["", " ", "\n", "a", "Z9", "_", "\0", "\ud800", "\u00fc", "the token: "])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_a_pattern_is_tried_on_every_text_in_which_it_finds_something(kind: Any, data: st.DataObject) -> None:
    text = data.draw(AROUND) + data.draw(st.from_regex(kind.pattern)) + data.draw(AROUND)
    assert kind in possible_kinds(text) or not kind.pattern.search(text)
    assert may_hold_secrets([text, "the heron", text]) == [
        bool(possible_kinds(text)),
        False,
        bool(possible_kinds(text)),
    ]


def test_names_of_keys_are_hints_however_a_value_is_assigned() -> None:
    names = ("api_key", "apiKey", "access-token", "client_secret", "SECRET", "credential", "credentials", "AccountKey")
    signs = ("=", ": ", " := ", "\u2003\u2003\u2003=> ", '": "', "'\n\t =")
    texts = [f"see {name}{sign}{chars(40)}" for name in names for sign in signs]
    assert may_hold_secrets(texts) == [True] * len(texts)
    address = "postgres://" + "\u00fc" * 100
    assert may_hold_secrets([f"{address}:x@host", f"{address} :", "see https://example.org/"]) == [True, False, False]


def test_letters_that_patterns_take_for_ascii_ones_count_in_hints() -> None:
    for text in (
        "api\u212aey: 0123456789abcdef",
        "to\u212aen = 0123456789abcdef",
        "pa\u017f\u017fword",
        "P\u0130N 1",
        "p\u0131n code",
    ):
        assert may_hold_secrets([text]) == [True]


def test_ordinary_words_are_no_hints() -> None:
    plain = "The opinion of the key locks: http://example.org/a is a basic monkey token, she said."
    assert may_hold_secrets([plain, "a pinhole", "keys: two", ""]) == [False, True, False, False]


@pytest.mark.parametrize("after", ["", "\n\nand then we went home. " * 500])
def test_a_private_key_without_its_end_is_masked(after: str) -> None:
    lines = "\n".join("MIIEpAIBAAKCAQEA0123456789abcdefghijklmnopqrstuvwxyz+/ABCDEFGHIJ" for _ in range(25))
    told = masked(f"-----BEGIN RSA PRIVATE KEY-----\n{lines}{after}")
    assert "MIIEpAIBAAKCAQEA" not in told
    assert ("went home" in told) == bool(after)


def test_beginnings_of_keys_without_an_end_take_linear_time() -> None:
    begun = "-----BEGIN RSA PRIVATE KEY-----" * 32_000
    assert masked(begun) == begun
