"""The driver on real peers that are killed, stopped and started again."""

import os
import signal
import threading
import time
import unittest

from tooz import coordination

from cluster import Cluster
from tooz_trivet import wire

_PATIENCE = 120.0



def until(what, holds):
    end = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (_PATIENCE, what))
        time.sleep(0.05)


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(os.environ["TOOZ_TEST_TRIVET"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def coordinator(self, member_id, options="", heart=False):
        c = coordination.get_coordinator(self.cluster.url + options, member_id)
        c.start(start_heart=heart)
        self.addCleanup(lambda: c.is_started and c.stop())
        return c

    def test_any_bytes_are_names(self):
        groups = [bytes(range(256)), b"G" * 300, "grüße/..".encode(), b"a.b", b"_"]
        members = [bytes(range(255, -1, -1)), b"M" * 300, b"host-7"]
        for g in groups:
            self.coordinator(b"maker").create_group(g).get()
        for m in members:
            c = self.coordinator(m)
            for g in groups:
                c.join_group(g, {"who": m}).get()
        c = self.coordinator(b"reader")
        self.assertEqual(set(groups), set(c.get_groups().get()) & set(groups))
        for g in groups:
            self.assertEqual(set(members), c.get_members(g).get())
            for m in members:
                self.assertEqual({"who": m}, c.get_member_capabilities(g, m).get())
            lock = c.get_lock(g)
            self.assertTrue(lock.acquire(blocking=False))
            self.assertTrue(lock.release())

    def test_capabilities_that_are_too_large_are_refused_with_their_size(self):
        c = self.coordinator(b"large")
        c.create_group(b"large").get()
        with self.assertRaisesRegex(coordination.ToozError, "capabilities of .* and 4096 are kept"):
            c.join_group(b"large", b"x" * 4000).get()
        self.assertEqual(set(), c.get_members(b"large").get())

    def test_leases_leave_no_records(self):
        c = self.coordinator(b"tidy")
        for n in range(5):
            lock = c.get_lock(b"tidy-%d" % n)
            self.assertTrue(lock.acquire())
            lock.release()
        c.create_group(b"tidy").get()
        c.join_group(b"tidy").get()
        c.watch_elected_as_leader(b"tidy", lambda _: None)
        c.run_watchers()
        c.stop()
        left = [lease["name"] for lease in wire.Peers(c.peers.urls, wire.Credentials(), None, 30).pages("/v1/leases", "leases", lambda l: l["name"])]
        self.assertEqual([], [name for name in left if "tidy" in name])

    def test_a_group_with_a_member_is_not_deleted_whoever_is_first(self):
        """Joins and deletions at the same instant: a member of no group never remains."""
        a, b = self.coordinator(b"joins"), self.coordinator(b"deletes")
        for n in range(20):
            group = b"race-%d" % n
            a.create_group(group).get()
            join, delete = a.join_group(group), b.delete_group(group)
            joined, deleted = True, True
            try:
                join.get()
            except coordination.GroupNotCreated:
                joined = False
            try:
                delete.get()
            except coordination.GroupNotEmpty:
                deleted = False
            self.assertNotEqual(joined, deleted)

    def test_a_wait_ends_with_its_time_or_when_the_lock_is_free(self):
        a, b = self.coordinator(b"a", heart=True), self.coordinator(b"b")
        first, second = a.get_lock(b"waited for"), b.get_lock(b"waited for")
        self.assertTrue(first.acquire())
        began = wire.now()
        self.assertFalse(second.acquire(blocking=3))
        self.assertLess(wire.now() - began, 30)
        self.assertGreater(wire.now() - began, 2)
        threading.Timer(wire.MAX_WAIT + 3, first.release).start()  # longer than one peer waits
        self.assertTrue(second.acquire())
        self.assertGreater(wire.now() - began, wire.MAX_WAIT)
        self.assertTrue(second.is_still_owner())

    def test_tokens_rise_and_no_two_hold_it_while_peers_are_killed(self):
        tokens, spans, guard = [], [], threading.Lock()
        ended, errors = threading.Event(), []

        self.coordinator(b"waits until the cluster answers")

        def work(n):
            c = self.coordinator(b"worker-%d" % n, "?timeout=10", heart=True)
            lock = c.get_lock(b"contended")
            while not ended.is_set():
                try:
                    if not lock.acquire(blocking=5):
                        continue
                    token, began = lock.fencing_token, wire.now()
                    last = began
                    end = began + 0.3
                    while wire.now() < end and lock.acquired:
                        last = wire.now()  # before the next look: what was proved for sure
                        time.sleep(0.01)
                    if token is not None:
                        with guard:
                            tokens.append((began, token))
                            spans.append((began, last, token))
                    lock.release()
                except coordination.ToozConnectionError:
                    continue  # two of three were dead at once
                except Exception as e:
                    errors.append(e)
                    return

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for n in range(5):
            time.sleep(4)
            self.cluster.kill(n % 3)
            time.sleep(2)
            self.cluster.start(n % 3)
        until("30 grants", lambda: len(tokens) >= 30 or errors)
        ended.set()
        for t in threads:
            t.join()
        self.assertEqual([], errors)
        in_order = [token for _, token in sorted(tokens)]
        self.assertEqual(sorted(in_order), in_order)
        self.assertEqual(len(set(in_order)), len(in_order))
        spans.sort()
        for (_, last, token), (began, _, next_) in zip(spans, spans[1:]):
            self.assertLessEqual(last, began, "tokens %d and %d held at once" % (token, next_))
        print("%d grants of one lock, 5 peers killed" % len(in_order))

    def test_a_lock_that_may_be_lost_says_so_before_another_has_it(self):
        a = self.coordinator(b"a", "?timeout=6", heart=True)
        lock = a.get_lock(b"lost")
        self.assertTrue(lock.acquire())
        token = lock.fencing_token
        self.cluster.stop_all()
        try:
            began = wire.now()
            until("the lock says that it may be lost", lambda: not lock.acquired)
            self.assertLess(wire.now() - began, 6)
            self.assertFalse(lock.is_still_owner())
            self.assertIsNone(lock.fencing_token)
        finally:
            self.cluster.continue_all()
        b = self.coordinator(b"b")
        other = b.get_lock(b"lost")
        self.assertTrue(other.acquire(blocking=_PATIENCE))
        self.assertGreater(other.fencing_token, token)
        self.assertFalse(lock.acquired)
        self.assertFalse(lock.release())
        self.assertTrue(other.is_still_owner())

    def test_heartbeats_keep_all_while_one_peer_is_silent(self):
        a = self.coordinator(b"kept", "?timeout=15", heart=True)
        locks = [a.get_lock(b"kept-%d" % n) for n in range(40)]
        for lock in locks:
            self.assertTrue(lock.acquire())
        a.join_group_create(b"kept")
        for silent in range(3):
            self.cluster.signal(silent, signal.SIGSTOP)
            try:
                end = wire.now() + 16  # more than the whole ttl
                while wire.now() < end:
                    self.assertTrue(all(lock.acquired for lock in locks))
                    time.sleep(0.1)
            finally:
                self.cluster.signal(silent, signal.SIGCONT)
            until("the cluster answers", lambda: locks[0].is_still_owner())
        self.assertIn(b"kept", a.get_members(b"kept").get())

    def test_election_moves_when_the_leader_falls_silent(self):
        a, b = self.coordinator(b"a", "?timeout=5"), self.coordinator(b"b", "?timeout=5")
        led = []
        for c in (a, b):
            c.join_group_create(b"led")
            c.watch_elected_as_leader(b"led", lambda event: led.append(event.member_id))
        a.run_watchers()
        token = a.leader_token(b"led")
        b.run_watchers()
        self.assertEqual([b"a"], led)
        until("b leads", lambda: (b.run_watchers(), b"b" in led)[1])  # a sends no heartbeat
        self.assertIsNone(a.leader_token(b"led"))
        self.assertGreater(b.leader_token(b"led"), token)
        self.assertEqual(b"b", a.get_leader(b"led").get())


if __name__ == "__main__":
    unittest.main()
