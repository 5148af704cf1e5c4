"""Closed classes of words, and the names that are sure."""

from __future__ import annotations

import re
from functools import cache


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _set("the a an our my his her their its your this these those some every each another any two three four")
PRONOUNS = _set("i we you he she it they me us him them myself everyone somebody someone nobody everybody there")
AUXILIARIES = _set("is are was were be been being am has have had do does did got gets")
PRESENT = _set("is are has have do does am")
MODALS = _set(
    "will would should could may might can must shall 'll ought wants want plans plan hopes hope tries try needs need"
)
NEGATIONS = _set("not never cannot hardly barely nobody none without neither nor")
CONDITIONS = _set("if unless whether suppose supposing once until imagine assuming should")
RELATIVES = _set("that who which whom")
PREPOSITIONS = _set(
    """of in on at by for from with to into onto about over under after before since during against between through
    without within as than like near per via behind beyond across until instead upon toward towards around including
    because while when where although though so then"""
)
SAYING = _set(
    """say says said saying tell tells told think thinks thought believe believes believed claim claims claimed heard
    hear hears suppose guess assume assumes assumed suspect suspects suspected wonder wonders hope hopes wish
    wishes according apparently supposedly reportedly allegedly maybe perhaps probably possibly promised
    promises dreamed asked ask asks imagine doubt doubts feel feels expect expects expected"""
)
ADVERBS = _set(
    """also now just already still then first both later previously currently often usually finally once again always
    even only soon today yesterday recently meanwhile together really actually never-endingly ever almost quickly"""
)
VAGUE = _set(
    """thing things one ones it way time times day days week weeks month months year years lot lots bit kind sort part
    something anything everything nothing stuff people person man woman guy everybody same other others rest
    whole more most much many few several next last former"""
)
CAPITALISED = _set(
    """i monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov
    dec mr mrs ms dr prof sir madam miss ok okay yes no today tomorrow yesterday christmas easter am pm utc gmt
    english god internet hi hey hello thanks mom mum dad"""
)
ACRONYMS = _set(
    """api apis pr prs url urls ci cd db ui ux http https json yaml xml csv html css sql cpu gpu ram ceo cto cfo coo
    cli id ids qa sdk ide os vm io tcp udp dns tls ssl ssh jwt rest orm llm ai ml faq pdf todo fixme note
    warning error readme changelog usa uk eu tv diy lgbtq asap fyi btw imo eta rfc adr okr kpi sla slo mvp poc
    bug usb gps hr it rpc"""
)
"""Written in capitals, and yet no names."""
TITLES = _set("mr mrs ms dr prof professor sir madam captain president senator doctor mister")
ROLES = _set(
    """ceo cto cfo coo founder cofounder co-founder president chairman director head manager lead owner author
    maintainer creator boss mentor teacher colleague friend partner wife husband brother sister mother father
    son daughter cousin uncle aunt neighbour neighbor roommate assistant intern supervisor coach girlfriend
    boyfriend fiancé fiancée mom mum dad grandmother grandfather grandma grandpa niece nephew landlord therapist
    doctor lawyer client"""
)
OF_PEOPLE = ROLES - _set("ceo cto cfo coo founder cofounder co-founder president chairman director head owner author")
PLACES = _set(
    """africa america amsterdam antarctica argentina asia athens atlanta auckland australia austria bangkok barcelona
    beijing belgium berlin bogota boston brazil brussels budapest cairo california canada chicago chile china
    colombia copenhagen cuba dallas delhi denmark denver detroit dubai dublin edinburgh egypt england ethiopia
    europe finland florence florida france frankfurt geneva germany ghana greece hamburg hawaii helsinki houston
    hungary iceland india indonesia iran iraq ireland israel istanbul italy jakarta japan kenya korea kyoto
    lagos lima lisbon london luxembourg lyon madrid malaysia manchester manila marseille melbourne mexico miami
    milan montreal morocco moscow mumbai munich nairobi naples nepal netherlands nigeria norway osaka oslo
    oxford pakistan paris peru philadelphia philippines poland porto portugal prague quebec rome romania russia
    scotland seattle seoul serbia shanghai singapore slovakia slovenia spain stockholm sweden switzerland sydney
    taiwan tanzania texas thailand tokyo toronto tunisia turin turkey uganda ukraine valencia vancouver venice
    vienna vietnam wales warsaw washington zagreb zurich zürich"""
) | frozenset(
    """new york|los angeles|san francisco|cape town|hong kong|new zealand|south africa|tel aviv|rio de janeiro|
    buenos aires|mexico city|saudi arabia|united states|united kingdom|south korea|sri lanka|costa rica|new delhi|
    san diego|las vegas|new orleans|st. louis|são paulo|kuala lumpur|ho chi minh city|silicon valley""".replace(
        "\n    ", ""
    ).split("|")
)
PRODUCTS = _set(
    """airflow android angular ansible apache aws azure babel bash bazel blender bun c++ cassandra celery chrome chroma
    clickhouse cmake cython debian deno django docker duckdb elasticsearch emacs excel express fastapi figma
    firefox flask flutter gcp gerrit git github gitlab go golang grafana graphql grpc gunicorn hadoop haskell
    heroku ios java javascript jenkins jest jira jupyter kafka kotlin kubernetes kuzu laravel linux lucene lua
    macos mariadb matplotlib memcached memgraph mongodb mypy mysql neo4j nestjs nginx nixos node node.js nodejs
    notion numpy nuxt openssl oracle pandas perl pgvector photoshop php pinecone playwright podman poetry
    postgres postgresql powershell preact prisma prometheus pydantic pytest python pytorch qdrant rabbitmq rails
    react redis ruby ruff rust salesforce scala sentry sketch slack snowflake solr spark splunk spring
    sqlalchemy sqlite supabase svelte swift tailwind tensorflow terraform travis typescript ubuntu vault vim
    vite vscode vue vuejs webpack whatsapp windows wordpress xcode zookeeper zoom"""
)
ORGANISATIONS = _set(
    """adobe airbnb alibaba amazon anthropic apple atlassian bbc bmw boeing bosch cern cisco dell deutsche disney
    ebay ericsson facebook ford google hp ibm ikea intel lego linkedin lyft mastercard meta
    microsoft mit mozilla nasa netflix nike nokia nvidia openai oracle paypal pfizer pixar porsche qualcomm reddit
    renault samsung sap shell shopify siemens sony spotify stanford stripe tencent tesla toyota twitter uber
    unicef unilever verizon visa vmware volkswagen volvo walmart yahoo yandex"""
)
ORG_ENDINGS = _set(
    """corp corp. corporation inc inc. ltd ltd. llc gmbh ag plc labs lab university college institute bank group
    foundation company technologies systems solutions partners ventures studios studio hospital school academy
    association consulting airlines pharmaceuticals industries holdings agency ministry department council team"""
)
ORG_STARTS = _set("university institute bank ministry department college school museum")
NAME_STARTS = _set("project operation lake mount saint san los new north south east west")
_FIRST = """aaron abdul abel abigail adam adele adrian agnes ahmed aisha aiko alan albert alejandro alex alexander
alexandra alfred ali alice alicia alina alison amanda amelia amina amir amira amy ana anders andrea andreas andrei
andrew angela anika anita ann anna anne annie anthony anton antonio anya aria ariel arjun arthur asha astrid audrey ava
ayesha barbara beatrice bella ben benjamin bernard beth bianca bill bob boris brandon brenda brian bridget bruno
camille carl carla carlos carmen carol caroline catherine cecilia charles charlie charlotte chen chloe chris
christian christina christine christopher claire clara claudia colin cynthia daisy dan dana daniel daniela
danielle dave david deborah deepak dennis diana diego dmitri dominic donald donna dorothy doug dylan ed eddie
edgar edward elaine elena eleanor elias elijah elisa elizabeth ella ellen elliot emily emma eric erica erik erin
ethan eugene eva evan evelyn fabio farah fatima felix fernando fiona finn florence frances francesca francisco
frank fred frederick gabriel gabriela gary george gerald gina giovanni giulia gloria gordon grace greg gregory
greta gustavo hana hannah hans harold harriet harry hassan hector helen helena henrik henry hiroshi holly hugo
ian ibrahim igor imani ines ingrid irene isaac isabel isabella isla ivan ivy jack jackson jacob jade jake james
jamal jan jane janet jasmine jason javier jean jeff jen jennifer jenny jeremy jerome jess jessica jim joan
joanna joe joel johan john johnny jon jonas jonathan jordi jorge jose joseph josh joshua juan judith judy julia
julian julie juliet justin kai karen kari karim karl kate katherine kathleen kathy katie keith kelly ken kenji
kenneth kevin khalid kim kira klaus kofi kristen kristin kumar kyle lara larry laura lauren laurent layla lea
leah lena leo leon leonard leonardo leslie li liam lily lina linda lisa liz logan lola lorenzo louis louise luca
lucas lucia lucy luis luka luke lydia magnus maja manuel mara marc marco marcus margaret maria mariam marie
marina mario marion mark marta martha martin mary mateo matt matthew maurice max maya megan mehmet mei mel
melanie melissa mia michael michel michelle miguel mike mila milan miles min mira miriam mohamed mohammed molly
monica moses muhammad nadia naomi natalia natalie nathan neha neil nia nick nicholas nicola nicole nikhil
nikolai nina noah noel nora norman ola olaf oleg olga oliver olivia omar oscar otto owen pablo pam pamela paolo
pat patricia patrick paul paula pedro peggy peter phil philip pia pierre priya quinn rachel rafael rahul raj
ralph ramon rania raul ravi ray raymond rebecca reza rhea ricardo richard rick rita rob robert roberto robin
roger roland roman ron rosa rose rosie roy ruben ruth ryan sabrina sally salma sam samantha samir samuel sandra
sandy sanjay sara sarah sasha saul scott sean sebastian selma serena sergei seth shannon sharon sheila shreya
silvia simon simone sofia sonia sophia sophie stan stefan stella stephanie stephen steve steven stuart sue sunil
susan sven sylvia takashi tamara tanya tara tariq ted teresa theo theodore theresa thomas tim timothy tina
tobias tom tomas tomasz tommy tony tracy troy tyler uma ursula valentina valerie vanessa vera veronica victor
victoria viktor vincent viola vivian vlad walt walter wanda wei wendy will william xavier yara yasmin yuki yusuf
yvonne zach zachary zara zoe zoey"""


@cache
def first_names() -> frozenset[str]:
    return _set(_FIRST)


EXTENSIONS = (
    "py pyi ts tsx js jsx mjs json jsonl yaml yml toml ini cfg conf md rst txt csv tsv sql sh bash zsh ps1 bat go rs "
    "c h cpp hpp cc java kt swift rb php pl lua html css scss vue svelte xml lock ipynb whl zip gz tar pdf png jpg svg "
    "log env proto tf gradle dockerfile makefile db sqlite"
).split()
FILE_END = re.compile(rf"\.(?:{'|'.join(sorted(EXTENSIONS, key=len, reverse=True))})$", re.IGNORECASE)
PROGRAMS = _set(
    """alma ansible apt apt-get aws bash brew bun bundle cargo cat cd chmod cmake cp curl deno docker docker-compose
    dotnet echo gcloud gh git go gradle grep helm java kubectl ls make mkdir mv mvn mypy node npm npx pip pip3
    pipx pnpm poetry psql pytest python python3 rails rake redis-cli rm rsync ruff rustup scp sed ssh sudo
    systemctl tar terraform tox tsc uv uvx vim virtualenv wget yarn claude-smart"""
)
