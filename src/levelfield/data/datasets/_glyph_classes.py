"""Classes of Glyphs: characters by alphabet, in class order.

Of characters that look the same once size and slant vary, only one is kept, across all alphabets. Examples:
Latin O, o, digit 0, Greek omicron, Cyrillic o and Armenian oh; Latin n and Armenian vo.
`tests/data/test_glyphs.py` checks this by rendering all characters.

The first half of the classes, for development, is Latin, Greek and Cyrillic script. The second half, the test
set, is Armenian, Georgian, Hebrew, Arabic and Lao. No alphabet is in both halves.
"""

from __future__ import annotations

from typing import NamedTuple


class Alphabet(NamedTuple):
    """Alphabet and its characters that are classes."""

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
