"""Sends the same requests to Parshall and to Azurite and reports where they are answered differently.

    python3 -m side_by_side PARSHALL AZURITE [PART OF THE NAME OF A CASE]

PARSHALL and AZURITE are endpoints such as `http://127.0.0.1:10000`. Each case begins with a container of its own. It ends
with 1 if there is a difference that `differences` does not know, or one of those is there no more.
"""

import collections
import dataclasses
import secrets
import sys

from .account import Account
from .cases import PAST, all_cases
from .compare import differences
from .differences import KNOWN, reason
from .sequences import sequences
from .states import STATES


def filled(request, values):
    """A request with what the account has said in place of the names in braces."""

    def fill(text):
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
        return text

    return dataclasses.replace(
        request, path=fill(request.path), query={name: fill(str(value)) for name, value in request.query.items()},
        headers={name: fill(str(value)) for name, value in request.headers.items()},
    )


def play(account, case, container):
    """Sets a case up and sends its requests; returns the answers."""
    values = {"container": container, "here": account.url(container), "snapshot": "", "tag": '"0x1"', "bare": "0x1", "modified": PAST}
    for request in STATES[case.state]:
        answer = account.send(filled(request, values))
        if answer.status >= 300:
            yield answer
            return
        values["tag"] = answer.tag() or values["tag"]
        values["bare"] = values["tag"].strip('"')
        values["modified"] = answer.modified() or values["modified"]
        values["snapshot"] = answer.headers.get("x-ms-snapshot", values["snapshot"])
    for request in (case.request, *case.after):
        yield account.send(filled(request, values))


def main(ours, theirs, part=""):
    ours, theirs = Account(ours), Account(theirs)
    cases = [case for case in all_cases() if part in case.name]
    run = secrets.token_hex(4)
    found = collections.Counter()
    for number, case in enumerate(cases):
        container = f"{run}-{number}"
        answers = zip(play(ours, case, container), play(theirs, case, container), strict=False)
        for position, (our, their) in enumerate(answers):
            where = case.name + "'" * position
            for fact, our_value, their_value in differences(our, their):
                if reason(where, fact, our_value, their_value) is None:
                    found[fact] += 1
                    print(f"{where}: {fact}: ours {our_value}, Azurite's {their_value}")
            # What follows from another outcome is no difference of its own.
            if our.status != their.status:
                break
    played = 0
    for name, requests in sequences():
        if part not in name:
            continue
        played += 1
        values = {"container": f"{run}-{name.rsplit('/', 1)[1]}-s", "modified": PAST}
        for position, request in enumerate(requests):
            our, their = (account.send(filled(request, values)) for account in (ours, theirs))
            different = False
            for fact, our_value, their_value in differences(our, their):
                if reason(f"{name}/{request.line()}", fact, our_value, their_value) is None:
                    found[fact] += 1
                    different = True
                    print(f"{name}, step {position}, {request.line()}: {fact}: ours {our_value}, Azurite's {their_value}")
            if different or our.status != their.status:
                break
    unused = [known for known in KNOWN if not known.found] if not part else []
    for known in unused:
        print(f"no longer a difference: {known.cases}: {known.fact}: {known.reason}")
    known = sum(known.found for known in KNOWN)
    print(f"{len(cases)} cases and {played} sequences, {known} known differences, {sum(found.values())} unknown")
    return 1 if found or unused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
