"""Pages in other languages, out of the locale data (Unicode CLDR) that babel carries.

Belongs here: sentence forms per language, filled with CLDR's own names and figures for territories: languages
spoken and by what share, currencies, week days, dates. Does not belong here: English (``texts.py``). The
sentences are ours; the facts are CLDR's, so the pages say nothing false.
"""

import datetime
import random
from collections.abc import Iterator

from babel import Locale
from babel.dates import format_date
from babel.languages import get_territory_language_info
from babel.numbers import get_territory_currencies

from gristmill.demo.texts import Article, Block

# babel's locale -> ISO 639-3, the name that the language stage must give.
ISO = {"de": "deu", "fr": "fra", "es": "spa", "it": "ita", "pl": "pol", "ru": "rus", "ja": "jpn"}
# Encodings that such pages still come in; the rest is UTF-8.
LEGACY = {"de": "iso-8859-1", "ru": "windows-1251", "ja": "shift_jis"}

TITLES = {
    "de": "Sprachen, Währungen und Kalender: {a}, {b} und {c}",
    "fr": "Langues, monnaies et calendriers : {a}, {b} et {c}",
    "es": "Lenguas, monedas y calendarios: {a}, {b} y {c}",
    "it": "Lingue, monete e calendari: {a}, {b} e {c}",
    "pl": "Języki, waluty i kalendarze: {a}, {b} i {c}",
    "ru": "Языки, валюты и календари: {a}, {b} и {c}",
    "ja": "言語と通貨と暦：{a}、{b}、{c}",
}
# {t} territory, {l} main language, {p} its share, {m} another language, {q} its share, {c} currency, {k} its code,
# {w} a week day, {d} a date, {n} number of languages.
SENTENCES = {
    "de": (
        "Wer nach dem Land fragt, das auf der Karte als {t} eingetragen ist, erfährt zuerst, dass dort {l} gesprochen "
        "wird, nämlich von ungefähr {p} Prozent der Menschen.",
        "Daneben hört man auch {m}, das etwa {q} Prozent der Bevölkerung verstehen, obwohl es nicht jeder in der "
        "Schule lernt.",
        "Bezahlt wird dort mit der Währung, die {c} heißt und im Bankverkehr mit dem Kürzel {k} geschrieben wird.",
        "Insgesamt führt die Statistik für {t} nicht weniger als {n} Sprachen auf, von denen einige nur in wenigen "
        "Dörfern zu hören sind.",
        "Ein Brief aus dieser Gegend könnte zum Beispiel am {d} abgeschickt werden und käme dann vielleicht erst am "
        "{w} der folgenden Woche an.",
    ),
    "fr": (
        "Quand on demande quelle langue se parle dans le territoire nommé {t}, la réponse est d'abord {l}, que "
        "comprennent "
        "environ {p} pour cent des habitants.",
        "On y entend aussi {m}, que près de {q} pour cent de la population connaissent, même si tout le monde ne "
        "l'apprend "
        "pas à l'école.",
        "La monnaie qui sert à payer dans les magasins s'appelle {c}, et les banques l'écrivent avec le code {k}.",
        "En tout, les statistiques ne comptent pas moins de {n} langues pour {t}, dont quelques-unes ne vivent "
        "plus que "
        "dans de petits villages.",
        "Une lettre envoyée de là-bas le {d} n'arriverait peut-être que le {w} de la semaine suivante.",
    ),
    "es": (
        "Quien pregunta qué lengua se habla en el territorio llamado {t} aprende primero que allí se usa {l}, que "
        "entienden cerca del {p} por ciento de los habitantes.",
        "También se oye {m}, que conoce más o menos el {q} por ciento de la población, aunque no todos lo "
        "estudian en la escuela.",
        "La moneda con la que se paga en las tiendas se llama {c}, y los bancos la escriben con el código {k}.",
        "En total, las estadísticas cuentan nada menos que {n} lenguas para {t}, y algunas de ellas solo viven "
        "en pueblos pequeños.",
        "Una carta enviada desde allí el {d} quizá no llegaría hasta el {w} de la semana siguiente.",
    ),
    "it": (
        "Chi chiede quale lingua si parla nel territorio chiamato {t} impara prima di tutto che lì si usa {l}, "
        "compreso da "
        "circa il {p} per cento degli abitanti.",
        "Si sente anche {m}, che conosce più o meno il {q} per cento della popolazione, anche se non tutti lo "
        "studiano a scuola.",
        "La moneta con cui si paga nei negozi si chiama {c}, e le banche la scrivono con il codice {k}.",
        "In tutto le statistiche contano non meno di {n} lingue per {t}, e alcune di esse vivono soltanto in "
        "piccoli villaggi.",
        "Una lettera spedita da laggiù il {d} forse non arriverebbe prima del {w} della settimana seguente.",
    ),
    "pl": (
        "Kto pyta, jakim językiem mówi się w kraju o nazwie {t}, dowiaduje się najpierw, że używa się tam języka {l}, "
        "który rozumie około {p} procent mieszkańców.",
        "Słychać tam także język {m}, który zna mniej więcej {q} procent ludności, chociaż nie wszyscy uczą się "
        "go w szkole.",
        "Pieniądze, którymi płaci się w sklepach, to {c}, a banki zapisują je za pomocą skrótu {k}.",
        "Ogółem statystyki wymieniają nie mniej niż {n} języków dla kraju {t}, a niektóre z nich żyją już tylko "
        "w małych wsiach.",
        "List wysłany stamtąd w dniu {d} mógłby dojść dopiero w następnym tygodniu, kiedy będzie {w}.",
    ),
    "ru": (
        "Тот, кто спрашивает, на каком языке говорят в стране под названием {t}, сначала узнаёт, что там используется "
        "{l} язык, который понимают около {p} процентов жителей.",
        "Там можно услышать и {m} язык, который знают примерно {q} процентов населения, хотя в школе его изучают "
        "не все.",
        "Деньги, которыми платят в магазинах, называются {c}, а банки пишут их с помощью кода {k}.",
        "Всего статистика называет для страны {t} не менее {n} языков, и некоторые из них живут только в "
        "небольших деревнях.",
        "Письмо, отправленное оттуда {d}, могло бы прийти только на следующей неделе, когда будет {w}.",
    ),
    "ja": (
        "{t}という地域で話されていることばを調べてみると、まず{l}が使われていて、住民のおよそ{p}パーセントがそれを理解することがわかります。",
        "そのほかに{m}も聞くことができ、学校で習わない人もいますが、人口のおよそ{q}パーセントが知っているそうです。",
        "お店で支払いに使われるお金は{c}と呼ばれ、銀行では{k}という記号で書かれます。",
        "統計によると、{t}には全部で{n}の言語があり、そのうちのいくつかは小さな村でしか話されていません。",
        "そこから{d}に出した手紙は、もしかすると次の週の{w}まで届かないかもしれません。",
    ),
}
MIN_LANGUAGES = 3  # a territory must have so many for the sentences to be true
PER_PAGE = 5


def articles(language: str) -> Iterator[Article]:
    """Pages of a language, each about territories of its own, in a fixed order."""
    locale = Locale(language)
    rng = random.Random(f"languages {language}")
    names = [t for t in sorted(locale.territories) if len(t) == 2 and _facts(locale, t)]
    rng.shuffle(names)
    for start in range(0, len(names) - PER_PAGE + 1, PER_PAGE):
        chosen = names[start : start + PER_PAGE]
        blocks: list[Block] = []
        for territory in chosen:
            facts = _facts(locale, territory) or {}
            facts |= {
                "w": locale.days["format"]["wide"][rng.randrange(7)],
                "d": format_date(datetime.date(2026, 1, 1) + datetime.timedelta(rng.randrange(365)), "long", locale),
            }
            blocks.append(Block("h2", locale.territories[territory]))
            sentences = [s.format(**facts) for s in SENTENCES[language]]
            joint = "" if language == "ja" else " "
            blocks.append(Block("p", joint.join(sentences[:2])))
            blocks.append(Block("p", joint.join(rng.sample(sentences[2:], 3))))
        a, b, c = (locale.territories[t] for t in chosen[:3])
        yield Article(TITLES[language].format(a=a, b=b, c=c), tuple(blocks))


def _facts(locale: Locale, territory: str) -> dict[str, str] | None:
    """What CLDR knows, in the words of ``locale``; None where it knows too little."""
    spoken = [
        (info["population_percent"], code)
        for code, info in sorted(get_territory_language_info(territory).items())
        if code in locale.languages
    ]
    currencies = [c for c in get_territory_currencies(territory) if c in locale.currencies]
    if len(spoken) < MIN_LANGUAGES or not currencies:
        return None
    spoken.sort(key=lambda pair: (-float(pair[0] or 0), pair[1]))
    (p, first), (q, second) = spoken[:2]
    return {
        "t": locale.territories[territory],
        "l": locale.languages[first],
        "m": locale.languages[second],
        "p": f"{p:g}",
        "q": f"{q:g}",
        "c": locale.currencies[currencies[0]],
        "k": currencies[0],
        "n": str(len(spoken)),
    }
