"""Stop words by language: the function words that running text cannot do without.

Belongs here: Gopher's eight words for English, and short lists of our own for other languages (articles, prepositions,
pronouns, auxiliaries that stand in almost every text). Does not belong here: how many a text must have (``rules.py``).
A language that is not here has no measure: its column is null, and a rule that reads it lets the document pass.
"""

from functools import cache

import numpy as np

from gristmill.text_units import word_hash, words

STOP_WORDS: dict[str, str] = {
    "eng": "the be to of and that have with",  # Gopher, appendix A.1.1 (Rae et al. 2021)
    "deu": "der die das und ist in zu den nicht von mit ein eine auf für sich dem des im auch",
    "fra": "le la les de des et un une du en que est pour dans qui sur pas au par avec",
    "spa": "el la los las de que y en un una por con para se del es no su al como",
    "por": "o a os as de que e do da em um uma para com não se por mais dos na",
    "ita": "il la i le di che e un una per in non del della con si è da sono come",
    "nld": "de het een van en in is dat op te voor niet met zijn aan er die om ook als",
    "swe": "och i att det som en på är av för med den till inte ett om har de",
    "dan": "og i at det er en til af på den for med ikke der et de som har",
    "nob": "og i det er en til på av for med som ikke den har at et om de",
    "nno": "og i det er ein til på av for med som ikkje den har at eit om dei",
    "isl": "og að í er það á sem við en um til var með fyrir ekki af",
    "fin": "ja on ei se että hän oli mutta kun niin myös ovat tai joka kuin",
    "est": "ja on ei et see oli ka kui aga või oma mis ning",
    "hun": "a az és hogy nem is egy van ez meg de csak már volt el",
    "pol": "i w nie na się z do to że jest o a jak od po ale przez",
    "ces": "a se v na je že to s z do o i ale jako pro by",
    "slk": "a sa v na je že to s z do o aj ale ako pre by",
    "slv": "in je se na v da za so ki z ne pa tudi bi",
    "hrv": "i je u se na da su za od što s ne kao ali bi",
    "srp": "и је у се на да су за од што с не као али би i je u se na da su za od što kao ali",
    "bos": "i je u se na da su za od što s ne kao ali bi",
    "bul": "и на в да се от за не е с по са че като но",
    "mkd": "и на во да се од за не е со по што ќе како но",
    "rus": "и в не на что с как по это из у за к от но для он а же",
    "ukr": "і в не на що з як до це та у за від для але він є про",
    "bel": "і ў не на што з як да гэта у за ад для але ён",
    "ron": "și de la a în cu nu o pe că din un mai pentru este care să",
    "ell": "και το να η την της του με για που είναι οι στο δεν από ο τα",
    "tur": "ve bir bu da için de ile çok olarak daha olan gibi ne var ama",
    "aze": "və bir bu da üçün ilə çox olan kimi daha də",
    "kaz": "және бұл мен бір үшін да де деп болып осы",
    "uzb": "va bu bilan uchun bir ham da deb bo'lgan bo'lib",
    "lit": "ir kad yra į iš su tai ne o kaip buvo už bet",
    "lav": "un ir ka no ar par uz kas to bet kā tas arī",
    "cat": "el la els les de que i en un una per amb del és no al com",
    "glg": "o a os as de que e do da en un unha para con non se por",
    "eus": "eta da ez bat du dira den ere izan baina hau",
    "gle": "an na agus ar i go is a le do ag ní sé",
    "cym": "y yr a i o yn ac ar mae am ei gan wedi",
    "sqi": "dhe të e në i për me një që nga është si",
    "afr": "die en van in is dat te het nie op vir met 'n ook",
    "swa": "ya na wa kwa ni katika la za kuwa hii yake",
    "ind": "yang dan di ini itu dengan untuk tidak dari pada adalah ke akan",
    "msa": "yang dan di ini itu dengan untuk tidak dari pada adalah ke akan",
    "tgl": "ang ng sa na mga at ay si ito para hindi",
    "vie": "và của là có không cho các một được trong với này người",
    "ara": "في من على إلى أن التي الذي هذا هذه عن مع كان لا ما",
    "fas": "و در به از که این را با است برای آن یک",
    "urd": "کے کی میں ہے کا اور سے کو نے پر یہ",
    "heb": "של את על לא הוא זה עם כי או גם היא אני",
    "hin": "के है में की और का को से पर यह ने भी",
    "mar": "आहे आणि या व हे ते नाही करून तर",
    "nep": "छ र को मा हो यो पनि गर्न भएको",
    "ben": "এবং এই ও করে থেকে এ না একটি তার হয়",
    "tam": "ஒரு இந்த என்று மற்றும் அந்த என இது",
    "tel": "ఈ ఒక మరియు అని ఆ కూడా",
    "kan": "ಈ ಒಂದು ಮತ್ತು ಆ ಎಂದು",
    "mal": "ഒരു ഈ എന്ന ആ എന്നാൽ",
    "guj": "છે અને આ એક તે માં કે",
    "pan": "ਦੇ ਹੈ ਵਿੱਚ ਦੀ ਅਤੇ ਦਾ ਨੂੰ ਤੋਂ",
    "kat": "და რომ ეს არ იყო ამ თუ რა",
    "hye": "և է որ մի այս են ի չի",
    "kor": "이 그 수 및 있는 등 것 더 한 또는",
    # each character is a word in these
    "zho": "的 是 在 了 一 和 不 有 我 这 為 为 這 人 中",
    "jpn": "の に は を た が で て と し れ も",
    "tha": "ที่ การ ของ และ ใน มี",
}


@cache
def table() -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """Languages' numbers, offsets (int64) of each into the hashes, and the words' hashes (uint64, at most 64 each)."""
    number: dict[str, int] = {}
    offsets, hashes = [0], []
    for lang, text in sorted(STOP_WORDS.items()):
        number[lang] = len(number)
        distinct = sorted({word_hash(w) for w in words(text)})
        if len(distinct) > 64:
            raise ValueError(f"{lang} has {len(distinct)} stop words; the kernel's mask holds 64")
        hashes.extend(distinct)
        offsets.append(len(hashes))
    return number, np.array(offsets, np.int64), np.array(hashes, np.uint64)
