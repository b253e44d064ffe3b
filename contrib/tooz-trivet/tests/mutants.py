"""Faults on purpose in the driver, each with the test that must notice it.

A row: the file, a text that stands in it once, what takes its place, and the test.
"""

import os
import shutil
import subprocess
import sys
import tempfile

ROWS = [
    ("held.py", " - self._margin", "", "HeldTest.test_it_counts_from_before_the_question_and_ends_a_third_early"),
    ("held.py", "        if not self.valid:\n            return False  # it was told", "        if False:\n            return False  # it was told", "HeldTest.test_a_late_renewal_revives_nothing"),
    ("held.py", "max(self._deadline, until)", "until", "HeldTest.test_an_old_answer_takes_nothing_away"),
    ("held.py", "if e.status in (404, 409, 410):\n                self.end()", "if e.status in (404, 410):\n                self.end()", "HeldTest.test_a_refused_renewal_ends_it_at_once"),
    ("held.py", "return held if held.renew() else _give_up(held)", "return held", "HeldTest.test_a_grant_that_comes_late_is_renewed_first"),
    ("wire.py", "answer.sent = began", "answer.sent = answer.sent", "WireTest.test_the_first_question_counts_though_a_later_one_is_answered"),
    ("wire.py", "next_at = now() + wait + self._lead", "next_at = now() + 1000", "WireTest.test_the_next_is_asked_next_to_a_silent_one"),
    ("wire.py", "time.CLOCK_BOOTTIME)", "time.CLOCK_REALTIME)", "ClockTest.test_it_goes_on_in_sleep"),
    ("names.py", 'return "x." + name.hex() + ".x"', 'return "n." + name.hex()', "NamesTest.test_every_name_is_one_that_trivet_takes_and_no_two_are_the_same"),
    ("names.py", 'len(group).to_bytes(8, "big") + group', "group", "NamesTest.test_group_and_member_are_not_run_together"),
    ("keystone.py", 'if headers.get("X-Auth-Token") == self._token:', "if False:", "KeystoneTest.test_a_token_is_kept_until_a_peer_refuses_it"),
    ("driver.py", 'if "@" in netloc:', "if False:", "URLTest.test_what_is_wrong_is_named"),
]


def survivors(site, here):
    """The rows whose test did not notice, or which do not fit the source."""
    missed = []
    for name, old, new, test in ROWS:
        with tempfile.TemporaryDirectory(prefix="trivet-tooz-") as dir_:
            copy = shutil.copytree(site, os.path.join(dir_, "site"))
            path = os.path.join(copy, "tooz_trivet", name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                missed.append("%s has %r %d times" % (name, old, text.count(old)))
                continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
            done = subprocess.run(
                [sys.executable, "-m", "unittest", "test_driver." + test], cwd=here, timeout=120, check=False,
                env=dict(os.environ, PYTHONPATH=os.pathsep.join([copy, here])), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode == 0 or "FAILED (" not in done.stdout:
                missed.append("%s: %r survives %s" % (name, old, test))
    print("%d mutants of the driver, %d not caught %s" % (len(ROWS), len(missed), missed or ""), flush=True)
    return missed
