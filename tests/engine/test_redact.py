from __future__ import annotations

import base64
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.timing import is_linear

from alma.engine.redact import count_removed, redact

# Values are joined at run time, so that no scanner takes this file for a leak.
MIX = "Zk3" + "vQ9xT7bLw2RfY8sHd5NcJ4mGp6" + "AeU1oXzBtKq"
HEX = "9f3c1e7a" + "5b2d8046" + "c7e19a3f" + "06d4b58e"
PW = "Tr0ub4" + "dor&3x"

SECRETS = [
    ("aws sts says {}", "ASIA" + "Q3EXAMP7LKJH2MNB"[:8] + "R5TW9ZKD"),
    ("aws_secret_access_key = {}", "wJ4lrXUtnFEMI/K7MDENG+bPxRfiCYz9Qp2mVt7s"),
    ("git remote set-url origin https://oauth2:{}@git.example.com/a/b.git", "gho" + "_" + MIX[:36]),
    ("gh auth login --with-token <<< {}", "github" + "_pat_" + "11ABCDE" + HEX[:15] + "_" + MIX),
    ("runner registered with {}", "glrt" + "-" + MIX[:20]),
    ("token {} was posted in the channel", "xoxp" + "-2345678901-2345678901-" + HEX),
    ("notify: {}", "https://hooks.slack" + ".com/services/T0" + "ABCDEFG/B0HIJKLMN/" + MIX[:24]),
    ("post to {}", "https://discord" + ".com/api/webhooks/99887766554433/" + MIX + MIX[:20]),
    ("OPENAI_API_KEY={}", "sk" + "-proj-" + MIX + MIX[:10]),
    ("client = Anthropic(api_key='{}')", "sk" + "-ant-api03-" + MIX),
    ("maps key {} is in the html", "AI" + "za" + "SyD" + MIX[:32]),
    ("stripe listen prints {}", "whsec" + "_" + MIX),
    ("use {} for the restricted one", "rk" + "_live_" + MIX[:24]),
    ("TWINE_PASSWORD={}", "pypi" + "-AgEIcHlwaS5vcmc" + MIX),
    ("login {}", "hf" + "_" + MIX[:34]),
    ("mail via {}", "SG" + "." + MIX[:22] + "." + MIX + MIX[:6]),
    ("twilio api {}", "SK" + HEX),
    ("TWILIO_AUTH_TOKEN: {}", HEX),
    ("bot {} started", "7654321098" + ":AAH" + MIX[:32]),
    ("client.login('{}')", "MTE4" + MIX[:20] + "." + "GhY3kQ" + "." + MIX[:38]),
    ("the cookie is {}", "ey" + "JhbGciOiJSUzI1NiJ9" + "." + "ey" + "JzdWIiOiIxMjM0In0" + "." + MIX),
    ("-H 'Authorization: Basic {}'", base64.b64encode(b"svc-deploy:" + PW.encode()).decode()),
    ("Authorization: Bearer {}", MIX),
    ('{{"Authorization": "Token {}"}}', HEX),
    ("Cookie: theme=dark; sessionid={}; lang=de", MIX[:32]),
    ("Set-Cookie: connect.sid={}; Path=/; HttpOnly", "s%3A" + MIX),
    ("DATABASE_URL=postgres://app:{}@db.internal:5432/app", PW),
    ("amqp://svc:{}@rabbit/vhost is the broker", "s3cr" + "3tQueue"),
    ("redis://:{}@cache:6379/0", "p4ss" + "Word99"),
    ("Server=tcp:sql;Database=x;User Id=sa;Password={};Encrypt=yes", PW.replace("&", "!")),
    ("AccountName=acme;AccountKey={};EndpointSuffix=core", MIX + MIX + "8g=="),
    ("password: {}", PW),
    ('"db_password": "{}",', "correct" + "-Horse-9"),
    ("DB_PASS={}", "sword" + "fish"),
    ("  client_secret: '{}'", MIX[:30]),
    ('api_key = "{}"  # prod', HEX),
    ("apiKey: `{}`", MIX[:26]),
    ('{{\\"access_token\\":\\"{}\\"}}', MIX),
    ("curl 'https://api.example.com/v1?api_key={}&page=2'", MIX[:28]),
    ("psql --password {} -h db", "Winter" + "2024!"),
    ("mysqldump -u root -p{} shop > dump.sql", "Sh0p" + "keeper"),
    ("sshpass -p '{}' ssh root@host", "r00t" + "Me-now"),
    ("curl -u deploy:{} https://ci.example.com", "d3pl" + "oyPw"),
    ("redis-cli -a {} ping", "c4che" + "Pw1"),
    ("openssl rsa -passin pass:{} -in k.pem", "k3y" + "Phrase"),
    ("machine api.example.com login bob password {}", "b0b" + "sPass"),
    ("my password is {}, please do not tell", "hunter" + "2"),
    ("The wifi password for the office is '{}'.", "blue" + "Monkey"),
    ("log in with password {} and continue", "Gr33n" + "Tea"),
    ("<password>{}</password>", "x9" + "Kettle"),
    ('<add key="ApiSecret" value="{}"/>', MIX[:24]),
    ("identity: {}", "AGE-SECRET" + "-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2),
    ("paid with {} today", "4539" + " 1488 " + "0343" + " 6467"),
    ("refund to {}", "DE89" + " 3704 0044 " + "0532 0130 00"),
    ("vault login {}", "hvs" + "." + MIX),
    ("databricks {}", "da" + "pi" + HEX),
    ("echo {} | base64 -d", base64.b64encode(("gh" + "p_" + MIX[:36]).encode()).decode()),
    ("seed phrase: {}", "legal winner thank year wave sausage worth useful legal winner thank yellow"),
    ("key split by zero width", "gh\u200bp_" + MIX[:18] + "\u200b" + MIX[18:36]),
    ("kubectl create secret generic db --from-literal=password={}", "kub3" + "Pw!x"),
    ("_authToken={}", HEX + "-x"),
    ("SECRET_KEY = 'django-insecure-{}'", "x$k2" + "v9@p#1m!q8w7" + "z5"),
]

HARMLESS = [
    "Merged 4f2a9c1d7e8b3a6f5c0d9e2b1a4f7c8d3e6b5a09 into main",
    "request id 7d9f1c1e-8a52-4a0e-9f3b-1c2d3e4f5a6b took 3 s",
    "sha256:" + HEX + HEX + " was pulled",
    "session_id: 7d9f1c1e-8a52-4a0e-9f3b-1c2d3e4f5a6b",
    "integrity sha512-" + MIX + MIX + "==",
    "--hash=sha256:" + HEX + HEX,
    "tokens expire in 24h, refresh tokens in 30d",
    "the password field must be validated",
    "function login(user: string, password: string): Promise<Token>",
    "def f(token: str | None = None, api_key: str = '') -> None: ...",
    "set password to a strong value",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "const token = process.env.GITHUB_TOKEN;",
    "token = request.headers['x-token']",
    "password = getpass.getpass()",
    "password: ${{ secrets.DB_PASSWORD }}",
    "API_KEY=<YOUR_KEY>",
    "export TOKEN=${API_KEY}",
    'curl -H "Authorization: Bearer $TOKEN" https://api.example.com',
    "Authorization: Bearer <token>",
    "Authorization: Bearer YOUR_API_KEY",
    "api_key: your-api-key-here",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "OPENAI_API_KEY=sk-...",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "password=changeme",
    "postgres://user:password@localhost:5432/db",
    "postgres://postgres:postgres@localhost/test",
    "mysql://root:${MYSQL_PASSWORD}@db/app",
    "git@github.com:acme/app.git and https://github.com/acme/app",
    "max_tokens: 4096, temperature=0.2",
    "nextPageToken: CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA",
    "primary_key=True, secret_name='prod/db-main-2024'",
    "token_url=https://auth.example.com/oauth2/token",
    "secretKeyRef: { name: db, key: password }",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "files starting with -----BEGIN RSA PRIVATE KEY----- are refused by the hook",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ" + MIX + " me@laptop",
    "NEXT_PUBLIC_STRIPE_KEY=pk" + "_test_" + MIX[:24],
    ".sk-folding-cube-2 .sk-cube-before-rotated { transform: scale(1.1) }",
    "the JWT has three parts: header.payload.signature",
    "docker run -p 8080:80 nginx; ssh -p 2222 host",
    "mysql -u root -p mydb",
    "user id 501:20, uid:gid 1000:1000, run with -u 1000:1000",
    "pass --token to the CLI, then the --password option is read from stdin",
    "passwords are hashed with argon2id",
    "the token is base64-encoded and the secret is rotated every 30d",
    "if (token === undefined) throw new Error('missing token')",
    "self.password = password",
    "password: Optional[str] = Field(None, min_length=8)",
    "password = models.CharField(max_length=128)",
    "i18n: { password: 'Passwort', token: 'Jeton' }",
    '<input type="password" name="password" autocomplete="current-password">',
    "order 4539148803436460 of 2024-05-01 12:30:45",
    "pay with the test card 4242 4242 4242 4242",
    "ts=1715600000000000000 trace=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk)",
    "node_modules/.pnpm/@babel+core@7.24.5/node_modules/@babel/core/lib/index.js",
    "key: value pairs are sorted by sort_key=created_at",
    'cache_key = f"{user_id}:{page}"',
    "secret: /run/secrets/db_password",
    "token: {{ vault_token }}, secret: !Ref DbSecret, password: *default",
    "AWS_PROFILE=prod-admin-2 AWS_REGION=eu-central-1",
    "the tokenizer turns a token into token_id 50256",
    "Keyboard: the secret is to pass early; compass: north",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 password rules apply to families",
    "password=[REDACTED:password] and token: [REDACTED:token]",
]


@pytest.mark.parametrize(("frame", "secret"), SECRETS)
def test_a_secret_is_removed_and_the_rest_kept(frame: str, secret: str) -> None:
    text = frame.format(secret) if "{" in frame else f"{frame} {secret}"
    result = redact(text)
    assert secret not in result
    assert secret.replace("\u200b", "") not in result
    assert "[REDACTED:" in result
    head = frame.format("\0").split("\0")[0] if "{" in frame else frame
    assert result.startswith(head[:20].rstrip("'\"`")[:10])
    assert redact(result) == result


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_a_whole_pem_block_goes_and_its_surroundings_stay() -> None:
    body = "\n".join([MIX * 2] * 3)
    for kind in ("RSA ", "", "OPENSSH ", "EC "):
        block = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
        assert redact(f"before\n{block}\nafter") == "before\n[REDACTED:private_key]\nafter"
        cut = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}"
        assert MIX not in redact(f"before\n{cut}")


def test_a_pem_block_inside_json_goes() -> None:
    key = "-----BEGIN PRIVATE KEY-----\\n" + MIX * 2 + "\\n-----END PRIVATE KEY-----\\n"
    text = '{"private_key": "' + key + '", "id": 1}'
    result = redact(text)
    assert MIX not in result
    assert result.endswith('"id": 1}')


def test_several_secrets_are_named_once_each() -> None:
    one, two = "gh" + "p_" + MIX[:36], "gh" + "p_" + MIX[1:37]
    result = redact(f"a {one} b {two} c password={PW}")
    assert result == "a [REDACTED:github_token] b [REDACTED:github_token] c password=[REDACTED:password]"


def test_a_lone_surrogate_does_not_raise() -> None:
    assert redact("\ud800 password=" + PW) == "\ud800 password=[REDACTED:password]"


PIECES = st.sampled_from(
    [
        "password",
        "token",
        "=",
        ":",
        " ",
        "\n",
        '"',
        "'",
        "://",
        "@",
        "a",
        "B7",
        "x9Kq",
        MIX,
        HEX,
        "sk-",
        "ghp_",
        "eyJ",
        ".",
        "--",
        "-p",
        "mysql ",
        "Bearer ",
        "[REDACTED:token]",
        "[REDACTED:",
        "]",
        "\u200b",
        ";",
        "&",
        "cookie: ",
        "-----",
        "is ",
        "key",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=100, deadline=None)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    again = redact(once)
    assert again == once


@given(st.text(alphabet=st.characters(), max_size=200))
@settings(deadline=None)
def test_any_string_is_accepted(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text(alphabet="abcdefghij \n,.", max_size=300))
@settings(deadline=None)
def test_plain_words_pass(text: str) -> None:
    assert redact(text) == text


TABLES = [
    ("user,password,role\nann,{0},admin\nbob,{1},guest\n", ""),
    ("user;password\r\nann;{0}\r\nbob;{1}\r\n", ""),
    ('"user","api_token"\n"Lee, Ann","{0}"\n"Bo","{1}"', ""),
    ("| Login | **Password** |\n|:--|--:|\n| ann | `{0}` |\n| bob | {1} |\n\n| a | b |", ""),
    (" id | db_password \n----+----\n  1 | {0}\n  2 | {1}\n(2 rows)", ""),
    ("token\tuser\n{0}\tann\n{1}\tbob", ""),
    ("user,password\nann,{0}\n\nuser,file,password\nbob,c3po7x,{1}", "c3po7x"),
]


def test_a_column_of_secrets_is_removed_and_its_table_stays() -> None:
    values = ("Larch-Tern-" + "5921xQ7z", "0tter" + "Quay7Kx2pVn8")
    for table, kept in TABLES:
        result = redact(table.format(*values))
        assert result.count("[REDACTED:") == 2, result
        marks = iter(part.split("]")[0] for part in result.split("[REDACTED:")[1:])
        assert result == table.format(*(f"[REDACTED:{mark}]" for mark in marks))
        assert kept in result


PLAIN_TABLES = [
    "| parameter | password |\n|---|---|\n| type | string |\n| encoding | utf-8 |\n| hash | sha256 |",
    "name,max_tokens\nsmall,4096\nlarge,128000",
    "import os, token\nfrom re import compile, match1",
    "user,\npassword,\nvalue12,\n",
    "the user, password,\nand the build13, host14,\n",
    "f(user, password)\ng(a1b2c, d3e4f5)",
]


LOOK_ALIKES = [
    "useToken('blue500')",
    "setToken('string')",
    '.password("Password is too short")',
    "redirect=%2Flogin%3Ftoken%3D%24TOKEN",
    "next=%2Fa%3Fpage_token%3Dabc123def456",
    "q=token%3A+1+or+2",
    "!function(){var e={token:1,key:2};window.k=e}();",
    "keyword,volume\npassword manager,1000\napi key,200",
    'psql "password=$PW host=db"',
    "rows are identified by 'id2'",
    "let token: Option<Token2> = None;",
    "$password = $_POST['password'];",
    "password: @DB_PASSWORD@",
    "snmpwalk -v2c -c public 10.0.0.1",
    '{"name":"X_TOKEN","value":"{{token}}"}',
    "- name: TOKEN_URL\n  value: https://auth.example.com/oauth2/token",
    "0.0.0.0:5432:5432",
    "a.py:5432:12: E501",
]


def test_what_is_no_secret_beside_these_words_stays() -> None:
    assert [redact(text) for text in LOOK_ALIKES] == LOOK_ALIKES


def test_a_table_about_secrets_stays() -> None:
    assert [redact(table) for table in PLAIN_TABLES] == PLAIN_TABLES


PAIRS = [
    '{{"Name":"DB_PASS","Value":"{}"}}',
    '[{{"Key" : "AdminPassword" , "Value" : "{}"}}]',
    "- key: REDIS_PASSWORD\n  value: {}",
    "SET PASSWORD FOR 'app' = PASSWORD('{}');",
    "$s = '{}' | ConvertTo-SecureString -AsPlainText -Force",
    "<td>Password</td><td>{}</td>",
    "password%253D{}",
    "aws configure\nAWS Secret Access Key [None]: {}",
]


def test_a_value_beside_its_name_is_removed() -> None:
    value = "Quill7-" + "Heron27x"
    assert [frame for frame in PAIRS if value in redact(frame.format(value))] == []


def test_a_wrapped_token_is_removed_whole() -> None:
    token = MIX + "q7" + MIX[::-1]
    for text in (f"api_token = {token[:40]}\n      {token[40:]}", f"{'x' * 30} API_TOKEN={token[:40]}\n{token[40:]}"):
        assert redact(f"{text}\nthe end").endswith("[REDACTED:token]\nthe end"), text
    digest = "9fceb02d0ae598e95dc970b74767f19372d61af8"
    for below in (f"    {digest}", f"{MIX}", "  next: step"):
        assert redact(f"API_TOKEN={token[:40]}\n{below}") == f"API_TOKEN=[REDACTED:token]\n{below}"


def test_what_was_removed_is_counted_by_kind() -> None:
    text = f"password={PW}, [REDACTED:token], password={PW}\nAKIA" + "IOSFODNN7QRSTUVW"
    result = redact(text)
    assert count_removed(text, result) == {"password": 2, "aws_access_key": 1}
    assert count_removed(result, redact(result)) == {}


ADVERSARIAL = [
    "eyJ",
    "a.",
    "SG.",
    "token=",
    "password: ",
    "://a:",
    "-----BEGIN RSA PRIVATE KEY-----",
    "AKIA",
    "sk-",
    "curl -u a:",
    "mysql -p ",
    "mysql a ",
    "4539 1488 ",
    "DE89 3704 ",
    "x" * 50,
    "key-0",
    "Cookie: a=b; ",
    "; a=bbbbbbbb",
    "password for a ",
    "password='",
    '\\"',
    "A1",
    "seed phrase: abc ",
    "login a password ",
    "--a-a-a-",
    "basic aaaa",
    "\u200bgh",
    "aB3/",
    " ",
    "token_a_",
    "set token ",
    "set a:",
    "openssl a ",
    "'key', ",
    "token: a b ",
    "key: a|",
    "api-",
    "AC" + "0" * 32 + " ",
    "Private-Lines: 1\n",
    '"kty" "d":"aaaa',
    "s.aaaa",
    "пароль: a",
    "密码",
    "a" * 15 + " ",
    "://" + "a" * 50 + ":",
    "a,password\nb,c1d2e3\n",
    "password,token\n",
    "<input type=password ",
    "snmpwalk -c ",
    "kind: Secret\ndata:\n a: b\n",
    "value: abcd, name: token ",
    "---- BEGIN SSH2 PRIVATE KEY ----\n",
    "password=\\\n",
    " x9Kq2vLm81x9Kq2v\n",
]


@pytest.mark.parametrize("unit", ADVERSARIAL, ids=range(len(ADVERSARIAL)))
def test_time_grows_linearly(unit: str) -> None:
    assert is_linear(lambda size: partial(redact, unit * (size // len(unit))), 4_000)
