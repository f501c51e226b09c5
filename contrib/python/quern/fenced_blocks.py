"""Makes a shell script of the fenced code blocks of a document, as somebody would paste them one after the other.

    python3 -m quern.fenced_blocks DOCUMENT [--as root|user] [--without WORD]

Blocks are those whose info string begins with "sh"; a second word restricts them: "sh root" is for root alone, and
--without leaves out those with that word. The script ends at the first command that fails, and says on file descriptor 3
which blocks were done.
"""
import argparse
import os
import re
import shlex
import sys

FENCE = re.compile(r"^```(.*)$")


def blocks(text):
    """[(line number, info string, lines)] of a Markdown text's fenced blocks."""
    found, current = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence := FENCE.match(line):
            if current is None:
                current = (number, fence[1].strip(), [])
            else:
                found.append(current)
                current = None
        elif current is not None:
            current[2].append(line)
    if current is not None:
        raise ValueError(f"line {current[0]}: the block does not end")
    return found


def script(name, text, who="user", without=()):
    """The shell script of a document's blocks."""
    lines = ["set -e"]
    for number, info, body in blocks(text):
        words = info.split()
        if not words or words[0] != "sh" or set(words[1:]) & set(without) or ("root" in words[1:] and who != "root"):
            continue
        place = shlex.quote(f"{name}:{number} as {who}")
        lines += [f"quern_block={place}", *body, f"echo ok {place} >&3"]
    trap = 'trap \'code=$?; [ "$code" = 0 ] || echo "FAIL $quern_block" >&3\' EXIT'
    return "\n".join([trap, *lines]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document")
    parser.add_argument("--as", dest="who", choices=["root", "user"], default="user")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args()
    with open(options.document, encoding="utf-8") as file:
        sys.stdout.write(script(os.path.basename(options.document), file.read(), options.who, options.without))


if __name__ == "__main__":
    main()
