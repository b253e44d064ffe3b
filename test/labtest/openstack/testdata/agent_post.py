"""Post a ramdisk's document with the code of ironic-python-agent itself.

usage: agent_post.py URL[,URL...] DOCUMENT SECONDS

SECONDS is the agent's http_request_timeout. Prints one line of JSON: what the agent was answered,
null if it gave up on an answer, or its error; and how long that took.
"""
import json
import sys
import time

from ironic_python_agent import config  # registers the options
from ironic_python_agent import inspector


class NoFailures:
    def get_error(self):
        return None


def main():
    urls, path, seconds = sys.argv[1:4]
    config.CONF([], project="ironic-python-agent", default_config_files=[])
    config.CONF.set_override("inspection_callback_url", urls)
    config.CONF.set_override("http_request_timeout", int(seconds))
    with open(path) as document:
        data = json.load(document)
    began, said = time.monotonic(), {}
    try:
        said["answer"] = inspector.call_inspector(data, NoFailures())
    except Exception as exc:
        said["error"] = f"{type(exc).__name__}: {exc}"[:500]
    said["seconds"] = round(time.monotonic() - began, 2)
    print(json.dumps(said))


main()
