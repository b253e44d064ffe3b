"""Debian's ironic-inspector in its distributed mode, on the driver.

Two conductors form their group, one of them leads, and node locks exclude processes.
The leader is killed, then a peer of Trivet.
"""

import os
import shutil
import subprocess
import tempfile
import time
import unittest

from tooz import coordination

from cluster import Cluster
from test_cluster import until
from tooz_trivet import names
from tooz_trivet import wire

_CONDUCTOR = "/usr/bin/ironic-inspector-conductor"
_GROUP = b"ironic_inspector.service_group"
_NODE = "5c6b8f2e-0b1d-4d6e-9f6a-0d5e6c7f8a90"

_SETTINGS = """[DEFAULT]
host = {host}
standalone = False
transport_url = fake:/
leader_election_interval = 1
log_file = {dir}/{host}.log
use_stderr = False
[coordination]
backend_url = {url}?timeout=8
[database]
connection = sqlite:///{dir}/inspector.sqlite
[ironic]
auth_type = none
endpoint_override = http://127.0.0.1:1
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:1
[pxe_filter]
driver = noop
[processing]
store_data = none
"""

# Takes a node's lock as a worker of the service does, says so, and waits to be killed.
_WORKER = """
import sys, time
from oslo_config import cfg
import ironic_inspector.conf
from ironic_inspector.common import coordination, locking
cfg.CONF(["--config-file", sys.argv[1]], project="ironic-inspector")
coordination.get_coordinator(prefix=sys.argv[2]).start()
lock = locking.get_lock(sys.argv[3])
while not lock.acquire(blocking=False):
    print("refused", flush=True)
    time.sleep(0.5)
print("locked", flush=True)
sys.stdin.read()
lock.release()
print("released", flush=True)
"""


class InspectorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(_CONDUCTOR):
            raise RuntimeError("%s is missing: install Debian's ironic-inspector" % _CONDUCTOR)
        cls.cluster = Cluster(os.environ["TOOZ_TEST_TRIVET"])
        cls.dir = tempfile.mkdtemp(prefix="trivet-tooz-inspector-")
        cls.running = []

    @classmethod
    def tearDownClass(cls):
        for process in cls.running:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                pipe.close()
        cls.cluster.close()
        shutil.rmtree(cls.dir, ignore_errors=True)

    def config(self, host):
        path = os.path.join(self.dir, host + ".conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(_SETTINGS.format(host=host, dir=self.dir, url=self.cluster.url))
        return path

    def launch(self, *words, **how):
        process = subprocess.Popen(words, cwd=self.dir, **how)
        self.running.append(process)
        return process

    def conductor(self, host):
        with open(os.path.join(self.dir, host + ".out"), "ab") as out:
            return self.launch(_CONDUCTOR, "--config-file", self.config(host), stdout=out, stderr=out)

    def logs(self, host):
        text = ""
        for name in (host + ".log", host + ".out"):
            try:
                with open(os.path.join(self.dir, name), encoding="utf-8", errors="replace") as file:
                    text += file.read()
            except FileNotFoundError:
                pass
        return text

    def leads(self, host):
        return "This conductor instance is a group leader now" in self.logs(host)

    def test_two_conductors(self):
        subprocess.run(["/usr/bin/ironic-inspector-dbsync", "--config-file", self.config("c1"), "upgrade"], cwd=self.dir, check=True, timeout=120, capture_output=True)
        conductors = {host: self.conductor(host) for host in ("c1", "c2")}
        watcher = coordination.get_coordinator(self.cluster.url, b"watcher")
        watcher.start()
        self.addCleanup(watcher.stop)

        def members():
            try:
                return watcher.get_members(_GROUP).get()
            except coordination.GroupNotCreated:
                return set()

        both = {b"ironic_inspector.conductor.c1", b"ironic_inspector.conductor.c2"}
        try:
            until("both conductors are in the group", lambda: members() == both)
            until("one leads", lambda: self.leads("c1") or self.leads("c2"))
        except AssertionError:
            print(self.logs("c1"), self.logs("c2"))
            raise
        first = "c1" if self.leads("c1") else "c2"
        second = "c2" if first == "c1" else "c1"
        self.assertFalse(self.leads(second))
        self.assertEqual(("ironic_inspector.conductor." + first).encode(), watcher.get_leader(_GROUP).get())
        self.node_locks()
        self.cluster.kill(0)
        began = time.monotonic()
        conductors[first].kill()
        until("the other leads", lambda: self.leads(second))
        print("the other conductor leads %.1f s after the leader and a peer were killed" % (time.monotonic() - began))
        until("the dead one is no member", lambda: members() == both - {("ironic_inspector.conductor." + first).encode()})
        self.cluster.start(0)

    def node_locks(self):
        a, b = (self.worker(name) for name in ("a", "b"))
        said = a.stdout.readline().strip()
        self.assertIn(said, ("locked", "refused"))
        holder, other = (a, b) if said == "locked" else (b, a)
        if holder is b:
            self.assertEqual("locked", b.stdout.readline().strip())
        self.assertEqual("refused", other.stdout.readline().strip())
        lease = names.lock("ironic_inspector." + _NODE)
        peers = wire.Peers(coordination.get_coordinator(self.cluster.url, b"m").peers.urls, wire.Credentials(), None, 30)
        self.assertTrue(peers.ask("GET", "/v1/leases/" + lease).json()["holder"])
        holder.kill()
        while (said := other.stdout.readline().strip()) == "refused":
            pass
        self.assertEqual("locked", said)
        other.stdin.close()
        self.assertEqual("released", other.stdout.readline().strip())

    def worker(self, name):
        return self.launch(
            "/usr/bin/python3", "-c", _WORKER, self.config("worker-" + name), "worker-" + name, _NODE,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


if __name__ == "__main__":
    unittest.main()
