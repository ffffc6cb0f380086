"""Goldens of chat templates: what transformers' apply_chat_template makes of them.

  python templates.py --folder cmd/vkdecode/testdata/templates

Reads *.jinja, writes goldens.json beside them: one case for each template, conversation and generation prompt. An error
of the template is a golden too.
"""
import argparse, json, pathlib
from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

BOS, EOS = "<s>", "</s>"
CONVERSATIONS = [
    [("user", "What is the capital of France?")],
    [("system", "You answer in one word."), ("user", "Capital of France?")],
    [("user", "Hi"), ("assistant", "<think>a greeting</think>\n Hello! "), ("user", "  Write json for \"é\" & <b>.\n")],
    [("user", "Line one\n\n  line two\t\u2028end"), ("assistant", "")],
    [("system", ""), ("user", "{{ not a template }} {% if %}")],
    [("user", "first"), ("user", "second")],
    [("assistant", "I begin")],
]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--folder", type=pathlib.Path, required=True)
    folder = args.parse_args().folder
    tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token=BOS, eos_token=EOS)
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        for turns in CONVERSATIONS:
            messages = [dict(role=role, content=content) for role, content in turns]
            for prompt in (False, True):
                case = dict(template=path.name, messages=messages, add_generation_prompt=prompt)
                try:
                    case["text"] = tok.apply_chat_template(
                        messages, chat_template=path.read_text(), tokenize=False, add_generation_prompt=prompt)
                except TemplateError as e:
                    case["error"] = str(e)
                cases.append(case)
    golden = dict(bos=BOS, eos=EOS, cases=cases)
    (folder / "goldens.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


main()
