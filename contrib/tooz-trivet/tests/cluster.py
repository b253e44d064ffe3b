"""Three peers of Trivet as processes on loopback, for tests."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

_READY = 120.0


class Cluster:
    """Peers h1 to h3. With users, their API asks for a password."""

    def __init__(self, binary, users=""):
        self.binary = os.path.abspath(binary)
        self.dir = tempfile.mkdtemp(prefix="trivet-tooz-")
        self.peers = {}
        self.killed = set()
        self.guard = threading.RLock()
        self.closed = threading.Event()
        ports = _free_ports(9)
        self.api = ["127.0.0.1:%d" % ports[3 * i] for i in range(3)]
        token = None
        for i in range(3):
            place = [
                "--config", "h%d.yaml" % (i + 1), "--name", "h%d" % (i + 1), "--data-dir", "h%d" % (i + 1),
                "--socket", "h%d.sock" % (i + 1), "--api-listen", self.api[i],
                "--cluster-listen", "127.0.0.1:%d" % ports[3 * i + 1], "--gossip-listen", "127.0.0.1:%d" % ports[3 * i + 2],
            ]
            if i == 0:
                settings = ["--firewall-driver", "noop", "--lease-enabled", "true"]
                if users:
                    path = os.path.join(self.dir, "htpasswd")
                    with open(path, "w", encoding="ascii") as file:
                        file.write(users)
                    settings += ["--api-auth-strategy", "http_basic", "--api-http-basic-auth-user-file", path]
                else:
                    settings += ["--api-auth-strategy", "noauth"]
                token = self._run("init", "-q", *place, *settings).strip()
            else:
                self._run("join", "127.0.0.1:%d" % ports[1], "--wait", "60s", *place, TRIVET_TOKEN=token)
            self.start(i)
        # A peer that was stopped for long ends itself, and systemd would start it again.
        threading.Thread(target=self._supervise, daemon=True).start()
        end = time.monotonic() + _READY
        while self._run("peers", "--config", "h1.yaml", "-o", "json").count('"voter": true') != 3:
            if time.monotonic() > end:
                raise RuntimeError("three peers did not become voters; their logs are in " + self.dir)
            time.sleep(0.2)

    @property
    def url(self):
        return "trivet://" + ",".join(self.api)

    def _run(self, *words, **env):
        done = subprocess.run(
            [self.binary, *words], cwd=self.dir, env=dict(os.environ, **env), check=False,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_READY, text=True)
        if done.returncode != 0:
            raise RuntimeError("trivet %s: %s%s" % (words[0], done.stdout, done.stderr))
        return done.stdout

    def _supervise(self):
        while not self.closed.wait(0.5):
            with self.guard:
                for i in range(3):
                    if i not in self.killed and not self.closed.is_set() and self.peers[i].poll() is not None:
                        self.start(i)

    def start(self, i):
        with self.guard, open(os.path.join(self.dir, "h%d.log" % (i + 1)), "ab") as log:
            self.peers[i] = subprocess.Popen(
                [self.binary, "serve", "--config", "h%d.yaml" % (i + 1)], cwd=self.dir, stdout=log, stderr=log)
            self.killed.discard(i)

    def signal(self, i, number):
        self.peers[i].send_signal(number)

    def kill(self, i):
        with self.guard:
            self.killed.add(i)
            self.peers[i].kill()
            self.peers[i].wait()

    def leader(self):
        """The peer that leads, None if that is not known."""
        for i in range(3):
            try:
                listed = json.loads(self._run("peers", "--config", "h%d.yaml" % (i + 1), "-o", "json"))
            except (RuntimeError, ValueError):
                continue  # it is dead
            for peer in listed if isinstance(listed, list) else listed["peers"]:
                if peer["leader"]:
                    return int(peer["name"][1:]) - 1
        return None

    def stop_all(self):
        """Stop the processes: they are silent, and connections stay open."""
        for i in self.peers:
            self.signal(i, signal.SIGSTOP)

    def continue_all(self):
        for i in self.peers:
            self.signal(i, signal.SIGCONT)

    def close(self):
        self.closed.set()
        with self.guard:
            for peer in self.peers.values():
                peer.kill()
                peer.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
