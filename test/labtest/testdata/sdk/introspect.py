"""Introspects two nodes through openstacksdk: the first has a ramdisk that
answers, the second has none and is aborted. Arguments: their UUIDs, then the
URLs of the peers, which are asked in turn. Says "all is well" at the end."""
import itertools
import sys
import time

import openstack

answering, silent = sys.argv[1:3]
peers = itertools.cycle([
    openstack.connect(
        auth_type="none", baremetal_introspection_endpoint_override=url, load_yaml_config=False, load_envvars=False
    ).baremetal_introspection
    for url in sys.argv[3:]
])


def check(true, what):
    if not true:
        sys.exit("not as it should be: %s" % (what,))


def until(what, ask):
    for _ in range(600):
        if ask():
            return
        time.sleep(0.1)
    sys.exit("never: " + what)


for node in (answering, silent):
    started = next(peers).start_introspection(node)
    check(started.id == node, started)
done = next(peers).wait_for_introspection(answering, timeout=60)
check(done.is_finished and done.state == "finished" and not done.error, done)
check(done.finished_at > done.started_at, done)

until("the silent node is waiting", lambda: next(peers).get_introspection(silent).state == "waiting")
listed = {one.id: one.state for one in next(peers).introspections()}
check(listed == {answering: "finished", silent: "waiting"}, listed)
paged = [one.id for one in next(peers).introspections(limit=1)]
check(sorted(paged) == sorted(listed), paged)

processed = next(peers).get_introspection_data(answering)
check(processed["memory_mb"] > 0 and processed["macs"], processed)
raw = next(peers).get_introspection_data(answering, processed=False)
check(raw["inventory"] == processed["inventory"] and "macs" not in raw, raw)

# The SDK has no call for this one; python-ironic-inspector-client makes it so.
before = next(peers).get_introspection(answering).finished_at
answer = next(peers).post("/introspection/%s/data/unprocessed" % answering)
check(answer.status_code == 202, answer.text)
until("the data was applied again", lambda: (lambda now: now.state == "finished" and now.finished_at > before)(next(peers).get_introspection(answering)))

next(peers).abort_introspection(next(peers).get_introspection(silent))
try:
    next(peers).wait_for_introspection(silent, timeout=60)
    sys.exit("the abort is no failure")
except openstack.exceptions.ResourceFailure as failure:
    check("Canceled by operator" in str(failure), failure)
try:
    next(peers).get_introspection("99999999-9999-4999-8999-999999999999")
    sys.exit("a node that nobody knows was found")
except openstack.exceptions.ResourceNotFound:
    pass
print("all is well")
