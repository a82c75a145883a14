"""Vocabulary of a scratch tokenizer for the prompts and legal texts of the games.

One token is one word (`lm.tokenizers.WordTokenizer`), punctuation included, so " 40." and "40" are
two words. Numbers are whole: 0 … 100 in rules and answers, and gains of the gift game up to 400.
Order choice in Diplomacy has its own, `orders_game.WORDS`. Payoffs or chances that are not whole
are no words; a subword tokenizer takes them.
"""

SETTINGS = ("A", "B", "C", "D", "E", "F")
LARGEST = 100
GAINS = tuple(range(110, 401, 10))

TEXTS = (
    "Setting Forecast A. B. C. D. E. F.",
    "Ultimatum. Pie 100. If refused, both get 0. I offer They offer 40. I accept. refuse.",
    "Gift. Each holds 100. A gift grows 2 times. I give They gave 40. I keep. give.",
    "Repeated game. Both cooperate 3. defect 1. I alone defect 5. I alone cooperate 0.",
    "Goes on with chance 90. Mine first CC. Round 9 of 40. I cooperate. defect.",
    "CC CD DC DD CC. CD. DC. DD. JJ JF FJ FF JJ. JF. FJ. FF. J F J. F.",
    "Bargaining. Each refusal cuts it to 90 percent. A refusal ends it with chance 10. Then both",
    "I keep They keep 55.",
    "Cake from 0 to 100. Left half worth 70 to me. Right half worth 30. They choose. I cut at",
    "They cut at 40. I take left. right.",
    "Past 40 accept. 30 refuse. keep give left right I last got 0. Turn 3 of 20. New rules.",
    "accept refuse keep give cooperate defect",
)
NUMBERS = tuple(form for n in (*range(LARGEST + 1), *GAINS) for form in (f"{n}", f"{n}."))
WORDS = tuple(dict.fromkeys([*NUMBERS, *(word for text in TEXTS for word in text.split())]))
