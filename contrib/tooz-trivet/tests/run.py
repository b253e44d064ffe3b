"""Run Tooz's own tests and those of the driver while peers are killed, and the mutants.

run.py TRIVET WHEEL: the binary, and the wheel of the driver, which is unpacked and
imported as pip would have installed it. A peer is killed every few seconds, in
turn, and started again; the driver's own tests run on a cluster of theirs.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

KILL_EVERY, DEAD_FOR = 3.0, 2.0
LIMIT = 600.0

# It wants a member gone 6 s after a join for 5 s. While there is no leader the time of
# the cluster stands still: an end comes as much later, and never early.
TIMED = "test_timeout"

# Tests of Tooz that are skipped since the driver does not declare what they test.
SKIPPED = {
    "test_get_shared_lock", "test_get_shared_lock_locking_same_lock_twice",
    "test_get_shared_lock_locking_two_lock", "test_get_lock_locking_shared_and_exclusive",
    "test_get_lock_locking_exclusive_and_shared",
}


class Killer(threading.Thread):
    """Kills one peer after the other until it is told to end."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.ended, self.kills = cluster, threading.Event(), 0
        self.spare_leaders = True

    def run(self):
        at = 0
        while not self.ended.wait(KILL_EVERY):
            at = (at + 1) % 3
            if self.spare_leaders and self.cluster.leader() in (at, None):
                continue
            self.cluster.kill(at)
            self.kills += 1
            time.sleep(DEAD_FOR)
            self.cluster.start(at)


def main():
    binary, wheel = sys.argv[1:3]
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory(prefix="trivet-tooz-") as site:
        zipfile.ZipFile(wheel).extractall(site)
        sys.path[:0] = [site, here]
        os.environ.update(PYTHONPATH=os.pathsep.join([site, here]), TOOZ_TEST_TRIVET=os.path.abspath(binary), PYTHONDONTWRITEBYTECODE="1")
        import mutants

        return 1 if len(mutants.survivors(site, here)) + suite_of_tooz(binary) + own_tests(here) else 0


def suite_of_tooz(binary):
    from cluster import Cluster

    cluster = Cluster(binary)
    os.environ["TOOZ_TEST_URL"] = cluster.url
    killer = Killer(cluster)
    killer.start()
    timed = [name for name in names_of_tests() if name.endswith("." + TIMED)]
    others = [name for name in names_of_tests() if name not in timed]
    try:
        # It counts seconds, of a machine that may be busy: one pass of three is enough.
        wrong = all(once(killer, timed) for _ in range(3))
        for killer.spare_leaders in (True, False, False):
            wrong += once(killer, others)
    finally:
        killer.ended.set()
        killer.join()
        cluster.close()
    return wrong


def names_of_tests():
    found = unittest.defaultTestLoader.loadTestsFromName("tooz.tests.test_coordination")
    return [test.id() for case in found for test in case]


def once(killer, names):
    before = killer.kills
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", *names],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, text=True, check=False)
    lines = done.stdout.splitlines()
    skipped = {line.split()[0].rsplit(".", 1)[-1] for line in lines if " ... skipped" in line}
    passed = sum(line.endswith(" ... ok") for line in lines)
    killed = killer.kills - before
    expected = {name.rsplit(".", 1)[-1] for name in names} & SKIPPED
    wrong = done.returncode != 0 or skipped != expected or passed + len(skipped) != len(names) or killed == 0
    if wrong:
        print(done.stdout)
        print("skipped, but declared: %s" % sorted(skipped - expected))
    print("Tooz's own tests: %d passed, %d skipped, exit code %d; meanwhile %d %s were killed" % (
        passed, len(skipped), done.returncode, killed, "followers" if killer.spare_leaders else "peers"), flush=True)
    return wrong


def own_tests(here):
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.discover(here))
    return not result.wasSuccessful() or result.testsRun == 0


if __name__ == "__main__":
    sys.exit(main())
