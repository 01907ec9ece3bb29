"""What the words in class names, ids, roles and item properties speak of.

Belongs here: words and the meaning (one of 63 bits) that each stands for. Site builders name their boxes for
themselves, and across sites they use the same few hundred words. Does not belong here: how much a meaning counts, which
is learnt.
"""

# Order is part of the trained weights: append only.
MEANINGS: tuple[tuple[str, str], ...] = (
    ("nav", "nav navi navigation navbar navs subnav topnav mainnav"),
    ("menu", "menu menus submenu dropdown megamenu hamburger drawer offcanvas"),
    ("header", "header head masthead topbar banner hd"),
    ("footer", "footer foot bottom colophon ft"),
    ("sidebar", "sidebar side aside rail sidenav widget widgets"),
    ("comment", "comment comments disqus respond commentlist kommentar kommentare comentarios commentaires"),
    ("reply", "reply replies response responses answer answers"),
    ("post", "post posts hentry blogpost"),
    ("entry", "entry entries"),
    ("article", "article articles artikel articulo story newsarticle blogposting"),
    ("content", "content contents inhalt contenido contenu cnt"),
    ("main", "main primary maincontent maincol"),
    ("body", "body articlebody bodytext fulltext copy prose"),
    ("text", "text txt richtext wysiwyg paragraph"),
    ("title", "title titel headline heading subject titulo titre name"),
    ("author", "author byline autor auteur writer contributor"),
    ("date", "date time datetime published timestamp datum fecha pubdate"),
    ("meta", "meta metadata postmeta details info information infobox"),
    ("tag", "tag tags tagcloud label labels keyword keywords topic topics"),
    ("category", "category categories cat cats taxonomy section sections"),
    ("breadcrumb", "breadcrumb breadcrumbs crumb crumbs path trail"),
    ("related",
    "related similar recommended recommendations recommend suggested suggestions more also upsell crosssell"),
    ("popular", "popular trending latest recent top featured mostread"),
    ("share", "share sharing social socials facebook twitter linkedin pinterest whatsapp addthis sharedaddy follow"),
    ("ad",
    "ad ads adv advert advertisement sponsor sponsored promo promotion promoted banner adsense dfp taboola outbrain"),
    ("cookie", "cookie cookies consent gdpr privacy onetrust"),
    ("newsletter", "newsletter subscribe subscription signup optin mailchimp mailing"),
    ("login", "login signin register account user logout password auth"),
    ("search", "search searchform suche busqueda query autocomplete"),
    ("form", "form field fields input inputs control controls"),
    ("button", "button btn buttons cta action actions toggle"),
    ("modal", "modal popup overlay lightbox dialog tooltip toast alert notice notification"),
    ("pagination", "pagination pager paging page pages paginate next prev previous"),
    ("list", "list listing listings items results archive loop feed"),
    ("item", "item listitem li row"),
    ("card", "card cards tile tiles teaser teasers box block panel"),
    ("grid", "grid gallery masonry carousel slider slide slides slick swiper slideshow"),
    ("image", "image images img photo photos picture thumbnail thumb thumbs media figure video videos player"),
    ("caption", "caption captions credit credits"),
    ("product", "product products produkt item shop store woocommerce catalog"),
    ("price", "price prices pricing amount cost cart basket checkout buy sale"),
    ("description", "description desc summary excerpt abstract intro introduction lead lede standfirst overview blurb"),
    ("spec", "spec specs specification specifications feature features attributes attribute properties ingredients"),
    ("review", "review reviews rating ratings stars testimonial testimonials feedback"),
    ("forum", "forum forums thread threads topic phpbb vbulletin bbs board"),
    ("message", "message messages messagebody postbody postcontent msg bbwrapper bbcode"),
    ("quote", "quote quotes blockquote quoted"),
    ("signature", "signature sig usersig"),
    ("avatar", "avatar profile gravatar userinfo member members poster usercard"),
    ("count", "count counter views likes votes vote score stats statistics badge"),
    ("code", "code highlight snippet codeblock sourcecode syntax hljs prism pre"),
    ("toc", "toc tableofcontents outline"),
    ("doc", "doc docs documentation markdown wiki readme api reference rst mw parser"),
    ("footnote", "footnote footnotes references citation citations reflist bibliography sources"),
    ("copyright", "copyright legal disclaimer terms imprint license"),
    ("contact", "contact address phone email location map hours"),
    ("skip", "skip sr screenreader visuallyhidden hidden hide offscreen assistive"),
    ("print", "print printer noprint download tools toolbar edit editsection"),
    ("language", "lang language languages locale translations hreflang"),
    ("event", "event events calendar schedule"),
    ("question", "question questions faq faqs qa accordion collapse tab tabs tabpanel"),
    ("hero", "hero jumbotron splash cover"),
    ("step", "step steps instructions recipe directions howto procedure"),
)

BIT = {meaning: number for number, (meaning, _) in enumerate(MEANINGS)}
# A word that two meanings claim keeps the first. Values are bit + 1: 0 means unknown.
WORDS: dict[str, int] = {}
for _meaning, _words in MEANINGS:
    for _word in _words.split():
        WORDS.setdefault(_word, BIT[_meaning] + 1)
SLOTS = 2048
