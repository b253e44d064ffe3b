"""The driver against a model of a peer, whose clock and answers the test sets."""

import http.server
import json
import os
import random
import re
import tempfile
import threading
import unittest
from unittest import mock
import urllib.parse

from tooz import coordination

from tooz_trivet import held
from tooz_trivet import keystone
from tooz_trivet import names
from tooz_trivet import wire


class NamesTest(unittest.TestCase):
    def test_every_name_is_one_that_trivet_takes_and_no_two_are_the_same(self):
        draw = random.Random(7)
        raw = [b"", b"a", b"A", b"-", b"a-", b"a.b", b"a_b", b"n.a", b"x.61.x", b"h.a", "ä".encode(), b"/", b"..", b"a" * 200, b"a" * 201, b"A" * 100,
               b"A" * 101, b"a" * 62, b"a" * 63, bytes(range(256)), b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"]
        raw += [draw.randbytes(draw.randrange(300)) for _ in range(2000)]
        raw = list(dict.fromkeys(raw))
        lease = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
        for encode, form in ((names.lock, lease), (names.leader, lease), (names.group, lease), (lambda r: names.membership(r, b"m"), lease),
                             (lambda r: names.membership(b"g", r), lease), (names.member, re.compile(r"[A-Za-z0-9._-]{1,64}")),
                             (names.group_key, re.compile(r"[A-Za-z0-9._:-]{1,512}"))):
            all_ = {encode(r) for r in raw}
            self.assertEqual(len(raw), len(all_))
            for name in all_:
                self.assertRegex(name, "^(?:%s)$" % form.pattern)

    def test_group_and_member_are_not_run_together(self):
        self.assertNotEqual(names.membership(b"ab", b"c"), names.membership(b"a", b"bc"))

    def test_text_is_utf8(self):
        self.assertEqual(names.lock("ä"), names.lock("ä".encode()))
        with self.assertRaises(TypeError):
            names.lock(7)


class Clock:
    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        return self.at


class FakePeers:
    """Answers as a cluster of Trivet, after `late` seconds on the test's clock."""

    def __init__(self, clock):
        self.clock, self.late, self.asked, self.fail = clock, 0.0, [], None
        self.remaining = None
        self.once = False  # only the next answer is late

    def ask(self, method, path, body=None, query=None, **_):
        sent = self.clock.at
        self.asked.append((method, path, query))
        self.clock.at += self.late
        self.late = 0.0 if self.once else self.late
        if self.fail:
            raise self.fail
        ttl = self.remaining if self.remaining is not None else 30000
        return wire.Answer(200, {}, json.dumps({"token": "7", "remaining_ms": ttl}).encode(), sent)


class HeldTest(unittest.TestCase):
    """What can be proved of a lease, by a clock that the test moves."""

    def setUp(self):
        self.clock = Clock()
        self.enterContext(mock.patch.object(wire, "now", self.clock))
        self.peers = FakePeers(self.clock)

    def acquire(self):
        return held.acquire(self.peers, "tooz.lock.n.a", "host-7", 30.0)

    def test_it_counts_from_before_the_question_and_ends_a_third_early(self):
        self.peers.late = 4.0
        h = self.acquire()
        self.assertAlmostEqual(16.0, h.left)
        self.clock.at += 15.9
        self.assertTrue(h.valid)
        self.clock.at += 0.2
        self.assertFalse(h.valid)

    def test_what_gives_no_right_lasts_to_its_end(self):
        h = held.acquire(self.peers, "tooz.member.a", "host-7", 30.0, margin=0.0)
        self.clock.at += 29
        self.assertTrue(h.renew())
        self.assertAlmostEqual(30.0, h.left)

    def test_what_is_left_of_a_grant_counts(self):
        self.peers.remaining = 24000
        h = self.acquire()
        self.assertAlmostEqual(14.0, h.left)

    def test_a_grant_that_comes_late_is_renewed_first(self):
        self.peers.late, self.peers.once = 11.0, True
        h = self.acquire()
        self.assertEqual("/v1/leases/tooz.lock.n.a/renew", self.peers.asked[-1][1])
        self.assertAlmostEqual(20.0, h.left)

    def test_a_renewal_extends_no_more_than_it_proves(self):
        h = self.acquire()
        self.clock.at += 10
        self.peers.late = 5.0
        self.assertTrue(h.renew())
        self.assertAlmostEqual(15.0, h.left)

    def test_a_late_renewal_revives_nothing(self):
        h = self.acquire()
        self.clock.at += 10
        self.peers.late = 10.1
        self.assertFalse(h.renew())
        self.assertFalse(h.valid)
        self.peers.late = 0.0
        self.assertFalse(h.renew())
        self.assertEqual(0.0, h.left)

    def test_an_old_answer_takes_nothing_away(self):
        h = self.acquire()
        self.peers.remaining = 3000
        self.assertTrue(h.renew())
        self.assertAlmostEqual(20.0, h.left)

    def test_a_refused_renewal_ends_it_at_once(self):
        for status in (404, 409, 410):
            h = self.acquire()
            self.peers.fail = wire.Refused(status, "another has it")
            self.assertFalse(h.renew())
            self.assertFalse(h.valid)
            self.peers.fail = None

    def test_silence_is_told_while_it_is_held(self):
        h = self.acquire()
        self.peers.fail = coordination.ToozConnectionError("silence")
        with self.assertRaises(coordination.ToozConnectionError):
            h.renew()
        self.assertTrue(h.valid)

    def test_a_release_after_its_end_is_none(self):
        h = self.acquire()
        self.clock.at += 21
        self.assertFalse(h.release())
        self.assertTrue(self.acquire().release())
        self.assertEqual(("DELETE", "/v1/leases/tooz.lock.n.a", {"record": "1"}), self.peers.asked[-1])


class ClockTest(unittest.TestCase):
    def test_it_goes_on_in_sleep(self):
        with mock.patch.object(wire.time, "clock_gettime", side_effect={wire.time.CLOCK_BOOTTIME: 5.0}.get):
            self.assertEqual(5.0, wire.now())


class Peer:
    """A server of HTTP on loopback that does as `reply` says."""

    def __init__(self, reply):
        peer = self
        self.asked = []
        self.headers = dict
        self.go_on = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                peer.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, body = reply(peer)
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                for name, value in peer.headers().items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]

    def close(self):
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


def well(_):
    return 200, {"token": "7", "remaining_ms": 1000}


def silent(peer):
    peer.go_on.wait(60)
    return 200, {}


def leaderless(_):
    return 503, {"error": {"message": "no leader"}}


def held_by_another(_):
    return 409, {"error": {"message": "lease a is held by host-8"}}


class WireTest(unittest.TestCase):
    def peers(self, *replies, ttl=6.0, **credentials):
        started = [Peer(r) for r in replies]
        for p in started:
            self.addCleanup(p.close)
        return started, wire.Peers([p.url for p in started], wire.Credentials(**credentials), None, ttl)

    def test_the_next_is_asked_next_to_a_silent_one(self):
        (first, second, third), peers = self.peers(silent, leaderless, well)
        for _ in range(2):
            self.assertEqual(200, peers.ask("GET", "/v1/leases/a").status)
        self.assertEqual([1, 1, 2], [len(p.asked) for p in (first, second, third)])  # the one that answered comes first

    def test_the_answer_of_a_slow_one_counts(self):
        slow = threading.Event()
        (_, second), peers = self.peers(lambda _: slow.wait(30) and well(_), lambda _: (slow.set(), leaderless(_))[1])
        self.assertEqual(200, peers.ask("GET", "/v1/leases/a").status)
        self.assertTrue(second.asked)

    def test_a_refusal_of_the_cluster_is_final(self):
        (first, second), peers = self.peers(held_by_another, well)
        with self.assertRaises(wire.Refused) as caught:
            peers.ask("PUT", "/v1/leases/a", {"holder": "x"})
        self.assertEqual((409, 0), (caught.exception.status, len(second.asked)))
        self.assertIn("host-8", str(caught.exception))

    def test_credentials_that_no_peer_takes(self):
        refuses = lambda _: (401, {"error": {"message": "who are you?"}})
        _, peers = self.peers(refuses, refuses)
        with self.assertRaises(wire.Refused) as caught:
            peers.ask("GET", "/v1/leases")
        self.assertIn("who are you?", str(caught.exception))

    def test_silence_of_all_ends_in_time_and_names_each(self):
        started, peers = self.peers(leaderless, silent, ttl=2.0)
        with self.assertRaises(coordination.ToozConnectionError) as caught:
            peers.ask("GET", "/v1/leases/a", limit=1.0)
        for p in started:
            self.assertIn(p.url, str(caught.exception))
        self.assertIn("no leader", str(caught.exception))

    def test_the_first_question_counts_though_a_later_one_is_answered(self):
        state = {"asked": 0}

        def second_time(_):
            state["asked"] += 1
            return well(_) if state["asked"] > 1 else leaderless(_)

        _, peers = self.peers(second_time)
        before = wire.now()
        answer = peers.ask("POST", "/v1/leases/a/renew", {})
        self.assertLess(answer.sent - before, 0.02)

    def test_a_password_and_a_token_are_read_from_files(self):
        with tempfile.TemporaryDirectory() as dir_:
            path = os.path.join(dir_, "secret")
            with open(path, "w", encoding="ascii") as file:
                file.write("admin:hummingbird\n")
            (peer,), peers = self.peers(well, user_file=path)
            peers.ask("GET", "/v1/leases")
            self.assertEqual("Basic YWRtaW46aHVtbWluZ2JpcmQ=", peer.asked[0][2]["authorization"])
            (peer,), peers = self.peers(well, token_file=path)
            peers.ask("GET", "/v1/leases")
            self.assertEqual("admin:hummingbird", peer.asked[0][2]["X-Auth-Token"])
            os.remove(path)
            with self.assertRaisesRegex(coordination.ToozError, "token_file: read .*secret"):
                peers.ask("GET", "/v1/leases")


class KeystoneTest(unittest.TestCase):
    """Logins at a model of Keystone, and tokens shown to a model of a peer."""

    def setUp(self):
        self.status, self.good = 201, "token-1"
        self.keystone = Peer(lambda p: (self.status, {}))
        self.keystone.headers = lambda: {"X-Subject-Token": self.good}
        self.peer = Peer(lambda p: well(p) if p.asked[-1][2].get("X-Auth-Token") == self.good else (401, {"error": {"message": "token expired"}}))
        for p in (self.keystone, self.peer):
            self.addCleanup(p.close)
        self.dir = self.enterContext(tempfile.TemporaryDirectory())

    def peers(self, text=None):
        path = os.path.join(self.dir, "service.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(text or "[ironic]\nauth_url = %s\nusername = trivet\npassword = 100%%secret\nproject_name = service\n" % self.keystone.url)
        return wire.Peers([self.peer.url], keystone.Keystone(path, "ironic", None), None, 6.0)

    def test_a_token_is_kept_until_a_peer_refuses_it(self):
        peers = self.peers()
        for _ in range(2):
            peers.ask("GET", "/v1/leases")
        self.assertEqual(1, len(self.keystone.asked))
        method, path, _, body = self.keystone.asked[0]
        self.assertEqual(("POST", "/v3/auth/tokens"), (method, path))
        self.assertEqual("100%secret", json.loads(body)["auth"]["identity"]["password"]["user"]["password"])
        self.good = "token-2"
        peers.ask("GET", "/v1/leases")
        self.assertEqual(2, len(self.keystone.asked))

    def test_a_token_that_is_refused_for_good_ends_it(self):
        peers = self.peers()
        self.keystone.headers = lambda: {"X-Subject-Token": "never good"}
        with self.assertRaisesRegex(wire.Refused, "token expired"):
            peers.ask("GET", "/v1/leases")
        self.assertEqual(2, len(self.keystone.asked))

    def test_what_is_wrong_is_named(self):
        for text, said in (("[other]\na = b\n", r"section \[ironic\] of .* has no auth_url, username"), ("no section", "read .*service.conf"),
                           ("[ironic]\nauth_url = http://127.0.0.1:1\nusername = a\npassword = secret\nproject_name = b\n", "log in at http://127.0.0.1:1/v3")):
            with self.assertRaisesRegex(coordination.ToozError, said) as caught:
                self.peers(text).ask("GET", "/v1/leases")
            self.assertNotIn("secret", str(caught.exception))
        self.status = 401
        with self.assertRaisesRegex(coordination.ToozError, "as trivet: status 401"):
            self.peers().ask("GET", "/v1/leases")


class URLTest(unittest.TestCase):
    def test_urls(self):
        for text, want in (
            ("trivet://h1,h2:5051", ["http://h1:5050", "http://h2:5051"]),
            ("trivet://[2001:db8::1]?peer=[2001:db8::2]:7&peer=h3", ["http://[2001:db8::1]:5050", "http://[2001:db8::2]:7", "http://h3:5050"]),
            ("trivet://h1?tls=true", ["https://h1:5050"]),
            ("trivet://h1?ca_cert=/etc/ssl/certs/ca-certificates.crt", ["https://h1:5050"]),
        ):
            self.assertEqual(want, coordination.get_coordinator(text, b"m").peers.urls)

    def test_what_is_wrong_is_named(self):
        for text, said in (
            ("trivet://", "no host"), ("trivet://h1:x", "HOST:PORT"), ("trivet://a:b@h1", "shows in logs"), ("trivet://h1?timeout=1", "timeout is 2 to 86400 seconds, not 1"),
            ("trivet://h1?lock_timeout=x", "lock_timeout is"), ("trivet://h1?tls=maybe", "tls is true or false"), ("trivet://h1?tiemout=5", "no such option: tiemout"),
            ("trivet://h1?credentials=a&token_file=b", "credentials and token_file exclude each other"),
        ):
            with self.assertRaisesRegex(coordination.ToozError, said, msg=text):
                coordination.get_coordinator(text, b"m")


if __name__ == "__main__":
    unittest.main()
