"""The strings that tokenizers are compared on: about 400, short, each for a reason."""

import random

# Pieces at whose seams pre-tokenizers differ.
SEAMS = [
    "a", "Zq", "é", "ñandú", "ß", "Ω", "ж", "中", "文字", "カナ", "한글", "ا", "ह", "ि", "ไทย",
    "1", "22", "333", "4444", "٣", "५", "Ⅷ", "½", "²",
    "'", "'s", "'S", "'re", "'RE", "'ll", "'lL", "'d", "'ſ", "’s", "''",
    ".", ",", "!?", "(", "_", "-", "@", "#", "$", "€", "…", "\u200d", "\u0301", "\ufe0f", "😀", "\x00", "\x7f",
    " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c",
]

PROSE = [
    "", "Hello, world!", "The whiteness of the Sun's Light is compounded of all the Colours.",
    "The rays of light, in going out of glass into a vacuum, are bent towards the glass.",
    "refrangibility of a telescope, telescopes, refrangibility's",
    "He said: \"It isn't so; they've gone, we'll see, I'd bet he's 'round.\"",
    "IT'S WE'RE THEY'VE I'M YOU'LL HE'D DON'T O'CLOCK", "it'S we'Re they'vE i'M you'lL he'D",
    "'sis 'tis 'twas 'dam 'member 'llama 'red 'very", "rock 'n' roll y'all'd've", "''s '''t 's't 'x 'l 'r 'v",
    "it’s we’re they’ve", "it'ſ 'ſ 'ſe", "café naïve coöperate façade Ångström", "A.B.C. e.g. i.e., etc...",
    "well-known state-of-the-art a_b__c --x", "x=y+z*2/3%4^5&6|7~8", "http://example.org/a/b?c=1&d=%20#e", "me@example.org",
    "CamelCaseWords andSnake_case ANDSHOUTING", "ℵ₀ ≤ ∞ ∑ √2 ≈ 1.414", "Strasse Straße STRASSE ſtraße",
]

NUMBERS = [
    "0", "12", "123", "1234", "12345", "123456", "1234567", "3.14159", "1,000,000", "1 000 000", "2024-02-29T12:34:56Z",
    "x1", "1x", "x1y22z333w4444", " 1", "  1", "   12", "a 1", "a  1", "a   1 b", "\n1", "\n\n12", "\t\t3", "1 ", "1  ", "1\n2", "1\r\n2",
    "0xDEADBEEF", "1e-10", "½¾", "x²+y²", "Ⅷ Ⅸ", "١٢٣٤", "१२३४५", "一二三", "①②③", "𝟏𝟐𝟑𝟒", "v1.2.3-rc4", "50%", "$9.99", "№5", "1st 2nd",
]

SPACES = [
    " ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r", "\r\n", "\r\n\r\n", "\n\r", "\u00a0", "\u00a0\u00a0", "\u3000", "\u3000\u3000",
    " a", "  a", "   a", "a ", "a  ", "a   ", "a b", "a  b", "a   b", "\ta", "\t\ta", "a\t", "a\tb", "a\t\tb", "\na", "\n\na", "a\n", "a\n\n", "a\nb", "a\n\nb", "a\n\n\nb",
    "a \nb", "a\n b", "a \n b", "a  \n  b", "a \n\n b", "a\n \nb", "a \r\n b", "a\r\n\r\nb", "a\r\n  b", "  \n", "\n  ", " \n ", "  \n\n  ", "\t\n\t", " \t \n \t ",
    "a\u00a0b", "a \u00a0b", "a\u00a0 b", "a\u00a0\u00a0b", "\u00a0a", "a\u00a0", "a\u3000b", "a\u3000 b", "a \u3000\u3000b", "\u3000a\u3000",
    "a\u2003b", "a\u2028b", "a\u2029\n b", "a\u0085b", "a\x0bb", "a\x0c\x0cb", "a\u200bb", "a\ufeffb", "a\u180eb", "a\x1c\x1d\x1e\x1fb", "a\u1680\u202f\u205fb",
    "a.\n", "a.\n\n", "a.\r\n", "a. \n", "a.\n b", "a.\n\n\n  b", "!\n?", " !\n", "  !\n\n", ")\r\n\r\n(", "\n.", "\n\n.", " .", "  .", "\t.", ".\t", ".  ", "... ...",
    " \u0301", "\n\u0301", "\u3000\u0301", "a  \u0301", " '", " 's", "  's", "\n's", "\t'll x",
]

SCRIPTS = [
    "Привет, мир! Это тест.", "Ελληνικά: αβγ ΑΒΓ.", "中文分词很有趣。", "日本語のテキスト、カタカナ。", "한국어 텍스트입니다.", "繁體字與简体字",
    "مرحبا بالعالم، كيف الحال؟", "العَرَبِيَّةُ", "שלום עולם", "שָׁלוֹם", "नमस्ते दुनिया", "हिन्दी में क्षत्रिय", "বাংলা ভাষা", "தமிழ் மொழி", "తెలుగు", "สวัสดีชาวโลก", "ภาษาไทยไม่มีช่องว่าง",
    "ខ្មែរ", "မြန်မာ", "ქართული", "Հայերեն", "አማርኛ", "ᏣᎳᎩ", "ᠮᠣᠩᠭᠣᠯ", "Tiếng Việt có dấu", "Türkçe İIıi", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈𐌰𐌹", "𠀀𠀁", "ꙮ", "ǅ ǆ Ǆ", "ﬀﬁﬂ", "ªº", "ʰʲ", "ⅰⅱ",
    # letters and numbers of Unicode 15.1 and 16
    "a\U0002ebf0b", "a\u1c89 \U000105c0x", "x\U00010d40\U00010d41y", "\ua7cb\ua7da",
]

MARKS = [
    "e\u0301", "cafe\u0301 ne\u0301e", "é e\u0301", "a\u0323\u0307", "a\u0307\u0323", "q\u0307\u0323", "\u0344", "\u212b \u2126 \u212a", "\u1112\u1161\u11ab", "\uac00\u11a8",
    "\u0958", "\u2adc", "\ufb1d", "\u0f73", "x\u0301\u0302\u0303", "\u0301", "\u0301a", "1\u0301", ".\u0301", "a" + "\u0301" * 35 + "b", "q" + "\u0323\u0301" * 20, "\U0001d15e",
    "\u0301\u0323" * 18, "가각힣", "\u1100\u1161", "n\u0303", "\u3042\u3099", "か\u3099 が",
]

EMOJI = [
    "😀", "😀😃😄", "Hi 😀!", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷🇯🇵", "1️⃣2️⃣", "❤️❤", "☃", "a😀b", " 😀", "  😀", "😀\n\n", "🧑🏿‍🚀 in space", "©®™", "→←", "\U0010ffff\U000e0001",
]

CODE = [
    "func main() {\n\tfmt.Println(\"hi\")\n}\n", "def f(x):\n    return x**2\n\n\nif __name__ == '__main__':\n    f(1)\n", "for (int i = 0; i < 10; i++) { a[i] += i; }",
    "<div class=\"a\">\n  <p>it's</p>\n</div>", "SELECT * FROM t WHERE a='b' AND c<>1;", "#include <stdio.h>\r\n\r\nint x;\r\n", "{\"k\": [1, 2, {\"n\": null}]}", "$ ls -la | grep '^d'   # dirs\n",
    "\\begin{x}\\alpha_{1}^{2}\\end{x}", "a := b<<3 &^ 0xff", "/* c */ // d\n", "    \t    mixed\n\t    \tindent", "^\\s*[\\r\\n]+$", "```go\nx\n```\n",
]

CONTROLS = ["\x00", "\x01\x02\x03", "a\x00b", " \x07 ", "\x1b[31mred\x1b[0m", "\x7f\x80\x9f", "\x04\x06\x13\x14\x16\x1d", "x\x04y the\x16n", "\ufffd", "a\ufffdb", "\ufeffBOM", "\ue000", "\u061c\u200f", "\U000f0000"]

# (text, bytes once repeated): words too long for any cache
LONG = [("ab", 2500), ("e", 700), ("1", 1000), ("=", 600), (" ", 700), ("\n", 300), (" a", 100), ("天", 200), ("!\n", 60)]

SPECIAL = [
    "<|endoftext|>", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", " <|im_end|> ", "<|im_end|", "<|im_end|>>", "<<|im_end|>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "<|endoftext|><|endoftext|>", "<think>why</think>ok", "a <think> b", "it<think>'s 1<think>2  <think> x",
    "x  <|im_end|>y", "1<|im_end|>23456", "<|im_start|><|IM_END|>", "e<|im_end|>\u0301", "ab:::cd::ef:e", "x::yz x::y ::yz", "café<think>cafe\u0301", "<|reserved_special_token_1|><|reserved_special_token_10|>",
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n",
]


def random_strings(count, pieces):
    rng = random.Random(1704)
    return ["".join(rng.choice(SEAMS) for _ in range(rng.randint(2, pieces))) for _ in range(count)]


def cases():
    """(text, repeat, special): the text is written repeat times; special says whether control tokens are parsed."""
    seen = set()
    plain = PROSE + NUMBERS + SPACES + SCRIPTS + MARKS + EMOJI + CODE + CONTROLS + random_strings(80, 9)
    every = [(t, 1, False) for t in plain] + [(t, n, False) for t, n in LONG]
    every += [(t, 1, special) for t in SPECIAL for special in (False, True)]
    for case in every:
        if case not in seen:
            seen.add(case)
            yield case
