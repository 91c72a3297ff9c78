"""Time zones and locales as Android understands them, so that nobody sets an emulator to a place that is none. Pure."""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_VARIANTS = r"(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
_LOCALE = re.compile(rf"([a-z]{{2,3}})(-[A-Z][a-z]{{3}})?(-([A-Z]{{2}}|[0-9]{{3}}))?{_VARIANTS}")
_LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik in io is it iu iw ja ji
jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne
ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st
su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu agq ast asa bem bez
bgc bho brx ccp ceb cgg chr ckb dav dje doi dsb dua dyo ebu ewo fil fur gsw guz haw hsb jgo jmc kab kam kde kea kgp
khq kln kok ksb ksf ksh lag lij lkt lrc luo luy mai mas mer mfe mgh mgo mni mua mzn naq nds nmg nnh nus nyn pcm prg
rof rwk sah saq sat sbp seh ses shi smn syr teo twq tzm vai vun wae xog yav yrl yue zgh
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""Of ISO 639: those of two letters, also old ones that Android still says, and those of three letters it knows."""
_REGIONS = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC
CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD
GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH
KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW
MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC
SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY
UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW
"""
REGIONS = frozenset(_REGIONS.split())
"""Of ISO 3166-1, and Kosovo."""
AREAS = frozenset({"001", "150", "419"})
"""The world, Europe and Latin America: the areas that stand for a region in locales."""


def time_zone_problem(text: str) -> str:
    """Empty, or why it is none."""
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "is not a time zone: write one as in Asia/Tokyo, or UTC"
    return ""


def locale_problem(text: str) -> str:
    """Empty, or why it is none."""
    found = _LOCALE.fullmatch(text)
    if found is None:
        return "is not a locale: write one as in ja-JP, or zh-Hant-TW"
    if found[1] not in LANGUAGES:
        return f"names no language: {found[1]}"
    if found[4] is not None and found[4] not in REGIONS | AREAS:
        return f"names no region: {found[4]}"
    return ""
