"""The classes of Glyphs: characters by alphabet, in class order.

Characters that cannot be told apart once size and slant vary are left out, whichever alphabet they belong
to: of Latin O, o, digit 0, Greek omicron, Cyrillic o and Armenian oh only one stays, of Latin n and
Armenian vo only one, and so on. `tests/data/test_glyphs.py` holds the list to that, by rendering it.

The first half of the classes, on which methods are developed, is Latin, Greek and Cyrillic script; the
second half, the test set, is Armenian, Georgian, Hebrew, Arabic and Lao: no alphabet is in both.
"""

from __future__ import annotations

from typing import NamedTuple


class Alphabet(NamedTuple):
    """A script and the characters of it that are classes."""

    name: str
    characters: str


ALPHABETS: tuple[Alphabet, ...] = (
    Alphabet("digits", "123456789"),
    Alphabet("latin", "ABCDEFGHJKLMNOPQRSTUVWXYZabdefimnqrty"),
    Alphabet("phonetic", "ßœØƁƔƕƝƢƧƱƺƾǁǂǶȜȢȸȾɀɁɕɘɚɝɞɧɮɯɷɹɻʇʍʎʑʔʕʚʛʞʤʦʨʩʬʭ"),
    Alphabet("greek", "ΔΞΣΦΨΩαβδεζηθιλμξπςστφωϏϗϘϞϠϢϦϨϪϬϮϻ"),
    Alphabet("cyrillic", "БДЖЛЧШЩЪЫЮЯЭцЂЉЊЋЏѢѤѦѨѪѬѮѰѸѺѼѾҐҘҠҤҦҨҬҴҼҾӇӔӘӠӺ"),
    Alphabet("armenian", "ԱԲԳԴԵԶԷԸԹԺԻԽԾԿՀՁՃՄՅՆՇՈՉՊՋՎՐՒՔՖթլխծկհձճմնչպջվփքֆ"),
    Alphabet("georgian", "ႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႰႱႲႴႵႸႺႻႼႽႿაბგდეთიკლმოჟრსტუფქღჩცწჭჯჰ"),
    Alphabet("hebrew", "אבגדהזטכלםמעףפץצקרשת"),
    Alphabet("arabic", "ءآئبتجخدرزسشصضطعغفقكلمنهويگھ"),
    Alphabet("lao", "ກຂຄງຈຊຍດຕຖທນປຜຝພມຣລວສອຮຯາໂໄ"),
)
