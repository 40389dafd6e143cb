"""Reading replies: the project's own cases, cuts at every byte, hostile shapes, blanks, and what the model is told."""

import json
import os
import time
import timeit
import unittest
from functools import partial

from agent import PROFILES, Reply, ReplyError, correction, read_call, read_story
from tests.long import replies
from tests.samples import sample
from tests.scripted import EngineCase, in_words, text

TOOLS = replies.VOCABULARIES
CASES = replies.load_cases()
OWN = PROFILES["planner"].vocabulary
CLICK, TYPE, PRESS = "click_screen_element", "type_text_input", "press_keyboard_key"


STORIES = ("<think>", "</think>", '"name" ', "{ ", "<think>a</think> ")
SHORT, LONG = 12_500, sample(200_000, 100_000)
# The processor's time of this thread, so that what else the machine does counts little; Windows counts it too coarsely.
NOW = time.perf_counter if os.name == "nt" else time.thread_time


def native(arguments, name=PRESS):
    return {"content": None, "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def typed(words):
    """What is typed where a model says this."""
    return read_call(Reply(native({"text": words}, TYPE), "stop"), TOOLS["planner"]).args["text"]


class Cases(unittest.TestCase):
    def test_each_reply_of_the_files_is_read_as_its_row_says_or_refused_in_a_short_sentence(self):
        for case in CASES:
            message, reason, tools = case["message"], case["finish_reason"], TOOLS[case["tools"]]
            with self.subTest(case["rule"], file=case["file"]):
                if "kind" not in case:
                    got = read_call(Reply(message, reason), tools).call
                    self.assertEqual({"name": got.name, "arguments": got.arguments}, case["call"])
                    self.assertEqual(got.ignored, case.get("ignored", got.ignored))
                    continue
                with self.assertRaises(ReplyError) as caught:
                    read_call(Reply(message, reason), tools)
                self.assertEqual(caught.exception.kind, case["kind"])
                str(caught.exception).encode("utf-8")
                # However many tools there are: their names are the one part that may be long.
                listed = ", ".join(tools.tools.values())
                sentence = str(caught.exception).replace(listed, "...")
                self.assertRegex(sentence, r"^[^\n]{1,200}\.$")
                corrected = correction(caught.exception)
                self.assertLessEqual(len(corrected.replace(listed, "...").split()), 60)
                # Least of all a broken call.
                for words in ("tool_call>", *case.get("lacks", [])):
                    self.assertNotIn(words, corrected)
                for words in case.get("told", []):
                    self.assertIn(words, corrected)

    def test_no_case_cut_at_any_byte_gives_another_call(self):
        """In the suite at every fifteenth byte, which of the many cases are others."""
        every = sample(1, 15)
        cuts = 0
        for number, case in enumerate(CASES):
            if "call" in case:
                cuts += replies.cut_everywhere(case, places=(number % every, every))
        self.assertGreater(cuts, 20_000 // every)

    def test_thousands_of_mutated_replies_give_a_call_or_a_reply_error(self):
        count = sample(20_000, 1_000)
        self.assertGreaterEqual(replies.run(count, seed=3), count)


# What is said again and again: signs, tags, beginnings and whole calls.
CALL = f'{{"name": "{PRESS}", "arguments": {{"key": "tab"}}}}'
PIECES = (
    *' { [ " \' \\ \\" ! {} {{ 9 -1, \\n ```'.split(" "),
    *"<think> </think> <think></think> <tool_call> <tool_call>{ <|im_end|> <function=a>".split(),
    *"<function=a></function> <function=a><parameter=b> <function=a><parameter=b></parameter>".split(),
    *"""{"a": {"a":1}, {'a':1}, {"a":1,"a":1}, <tool_call>{'a':' <tool_call>{"a":"</think>""".split(),
    *"""<tool_call>[{'a <tool_call>{"a":1,} <tool_call>{"a":1,}</think>""".split(),
    *(", ", " ", "<tool_call> ", "1" * 18 + ",", CALL, f"<tool_call>{CALL}{{"),
    f"<tool_call>{CALL}</tool_call>",
)
STARTS = ("", "<tool_call>", "<tool_call>{'a': '", f'{{"name": "{PRESS}", "arguments": {{"key": [')


class Hostile(unittest.TestCase):
    def test_what_no_model_can_mean_is_refused(self):
        """Infinite numbers, deep values and messages that are none end at the server's answer, in test_model."""
        far = ([10**300, 1], {"x": -(10**300), "y": 1}, 10**300)
        calls = "".join(in_words(TYPE, text=str(number)) for number in range(1001))
        odd = [(native({"element_name": "OK", "position": p}, CLICK), "invalid_box") for p in far]
        odd += [(native({"text": 10**300}, TYPE), "invalid_args")]
        odd += [(native({1: 2}), "missing_key"), (text(calls), "repetition")]
        for depth in (500, 5_000, 50_000):  # what Python can still decode depends on its version
            for begin, end in ('{"key": ', "}"), ("[", "]"):
                deep = begin * depth + "1" + end * depth
                odd += [(native(deep), None), (text(f"<tool_call>{deep}"), None)]
        for message, kind in odd:
            with self.subTest(str(message)[:50]), self.assertRaises(ReplyError) as caught:
                read_call(Reply(message, "stop"), TOOLS["planner"])
            self.assertIn(kind, (None, caught.exception.kind))

    def test_long_repeats_of_anything_give_a_call_or_a_short_refusal(self):
        size = sample(8_000, 1_000)
        for start in STARTS:
            for piece in filter(None, PIECES):
                said = start + piece * (size // len(piece))
                for message in (text(said), native(said)):
                    with self.subTest(start=start, piece=piece):
                        try:
                            read_call(Reply(message, "stop"), TOOLS["planner"])
                        except ReplyError as error:
                            self.assertLess(len(str(error)), 400)

    def test_the_time_for_a_long_text_grows_with_its_length_not_with_its_square(self):
        pieces = [("<|im_end|>", "x"), ("<|im_end|>x", ""), ("x<|im_start|><|endoftext|>", "")]
        stories = [(piece, "") for piece in STORIES]
        for read, tried in ((typed, pieces), (lambda words: read_story(text(words)), stories)):
            for piece, tail in tried:
                words = [piece * (size // len(piece)) + tail for size in (SHORT, LONG)]
                tries = (timeit.repeat(partial(read, one), timer=NOW, number=1) for one in words)
                short, long = map(min, tries)
                # As far from the length as from its square, in case the machine is busy.
                self.assertLess(long, 4 * LONG / SHORT * max(short, 1e-6), piece)


class Texts(EngineCase):
    def told_again(self, observation):
        """A story's observation as it stands in the next request."""
        said = text(json.dumps({"observation": observation, "bboxes": [], "actions": []}))
        trial = self.trial(lambda _: said, "story", max_steps=2)
        trial.run()
        return json.loads(trial.requests[1]["messages"][2]["content"])["observation"]

    def test_endless_repeats_are_cut_to_two_rounds(self):
        for unit in ("!", "ab", "The window is open. ", "x" * 50 + "y" * 60):
            with self.subTest(unit):
                left = self.told_again("Before. " + unit * 400 + "After.")
                self.assertLess(len(left), 60 + 4 * max(40, len(unit)))
                self.assertRegex(left, r"(?s)^Before\. .*repeated.*After\.$")

    def test_ordinary_texts_are_not_cut(self):
        numbered = "".join(f"Line {number} says something else. " for number in range(40))
        said_again = "".join(f"Line {number} is of another kind. " for number in range(8)) * 5
        for words in ("short", "-" * 100, numbered.strip(), "a b c " * 20 + "d", said_again + "."):
            self.assertEqual(self.told_again(words), words)


if __name__ == "__main__":
    unittest.main()
