"""Hooks of Schemathesis for test/e2e/api-fuzzing.test.ts, which says with environment variables what it made.

They change two kinds of calls, and leave none out:
- The key of the calls can neither be deleted nor changed: such a call is made for another key.
- No import and no callback leaves this machine: what begins as a URL becomes one of the test's own web server.
"""

import os
import re

import schemathesis

OWN_KEY = os.environ["FUZZ_OWN_KEY_ID"]
OTHER_KEY = int(os.environ["FUZZ_OTHER_KEY_ID"])
WEB_SERVER = os.environ["FUZZ_WEB_SERVER"]
URL_START = re.compile(r"\s*(https?|ftps?)\s*:", re.IGNORECASE)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path_parameters
    if "/api_keys/{id}" in context.operation.path and case.method in ("PUT", "DELETE"):
        if path and names_own_key(path.get("id")):
            path["id"] = OTHER_KEY
    if isinstance(case.body, (dict, list)):
        keep_here(case.body)


def names_own_key(value):
    # The id could be written with zeros in front or percent-encoded; nothing else in it is a digit.
    return re.sub(r"%3(\d)", r"\1", str(value)).strip().lstrip("+0") == OWN_KEY


def keep_here(value):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            keep_here(inner)
        elif isinstance(inner, str) and URL_START.match(inner):
            value[key] = WEB_SERVER
