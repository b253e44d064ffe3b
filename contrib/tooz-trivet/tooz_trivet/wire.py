"""Questions to the peers of a Trivet cluster: any of them answers each."""

import json
import os
import queue
import threading
import time
import urllib.parse

from tooz import coordination
import urllib3

#: The longest that a peer waits for somebody else's lease to end, in seconds.
MAX_WAIT = 10.0
_MAX_TRY = 10.0
_MAX_LEAD = 1.0
_CONNECT = 3.0  # a host that is dead refuses nothing: it is silent
_NOBODY_LISTENS = 3.0  # while all hosts refuse connections
_MAX_ANSWER = 1 << 20  # bytes; a page ends at 256 KiB
_MAX_PAGES = 1000

# What the whole cluster says, so that no other peer is asked. Others of 401, 403 and
# 404 are one peer's, whose users or configuration may differ.
_DEFINITE = (400, 404, 409, 410, 412, 413, 428, 507)


def now():
    """Seconds since boot: nobody sets this clock, and it goes on in a machine's sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Refused(coordination.ToozError):
    """The cluster refuses what it was asked for."""

    def __init__(self, status, message, body=None):
        super().__init__(message)
        self.status = status
        self.body = body or {}


class Answer:
    """What a peer said, and when the question was put that it answers, or earlier."""

    def __init__(self, status, headers, body, sent):
        self.status, self.headers, self.body, self.sent = status, headers, body, sent

    def json(self):
        try:
            found = json.loads(self.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise coordination.ToozError("the answer is no JSON object: %.80r" % self.body)
        return found


class Credentials:
    """What shows a peer who asks: a user's password, or a token of Keystone.

    Both are read from files, since a URL shows in logs, and again for each question,
    so that a token may be renewed by another program.
    """

    def __init__(self, user_file=None, token_file=None):
        self._user_file, self._token_file = user_file, token_file

    def headers(self):
        if self._token_file:
            return {"X-Auth-Token": self._read("token_file", self._token_file)}
        if not self._user_file:
            return {}
        text = self._read("credentials", self._user_file)
        if ":" not in text:
            raise coordination.ToozError("credentials %s: write USER:PASSWORD on the first line" % self._user_file)
        return urllib3.make_headers(basic_auth=text)

    def refused(self, headers):
        """Whether others may be shown, now that a peer refused these."""
        return False

    @staticmethod
    def _read(option, path):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.readline(4096).strip()
        except OSError as e:
            raise coordination.ToozError("%s: read %s: %s" % (option, path, e.strerror)) from e
        if not text:
            raise coordination.ToozError("%s: %s is empty" % (option, path))
        return text


class Peers:
    """The peers, asked in turn, first the one that answered last.

    One that is silent for longer than `lead` is not given up: the next is asked next to
    it, so that a dead peer costs a small part of a ttl and a slow one nothing. All
    questions may be repeated. Any thread may ask.
    """

    def __init__(self, urls, credentials, ca_cert, ttl):
        self.urls = urls
        self._credentials = credentials
        self._ca_cert = ca_cert
        self._try = min(ttl, _MAX_TRY)
        self._lead = min(ttl / 24, _MAX_LEAD)
        self._first = 0
        self._lock = threading.Lock()
        self._process = None  # that opened the connections: a fork must not share them
        self._http = None

    def _pool(self):
        with self._lock:
            if self._process != os.getpid():
                self._http = urllib3.PoolManager(
                    num_pools=len(self.urls), maxsize=16, block=False, retries=False,
                    cert_reqs="CERT_REQUIRED", ca_certs=self._ca_cert)
                self._process = os.getpid()
            return self._http

    def ask(self, method, path, body=None, query=None, headers=None, limit=None, wait=0.0):
        """Ask until the cluster answers, for `limit` seconds at most.

        `wait` is how long the peer itself may wait before it answers. Raises Refused,
        and ToozConnectionError when no peer answers in time. Whether something was
        done is unknown then.
        """
        limit = self._try + wait if limit is None else limit
        shown = self._credentials.headers()
        headers = dict(shown, Accept="*/*", **(headers or {}))
        if isinstance(body, dict):
            headers["Content-Type"] = "application/json"
            body = json.dumps(body).encode("utf-8")
        elif body is not None:
            headers["Content-Type"] = "application/octet-stream"
        end, began = now() + limit, now()
        renewed = False
        while True:
            misses = {}
            answer = self._round(method, path, body, query, headers, min(end, now() + wait + 3 * self._try), wait, misses)
            if answer is not None:
                answer.sent = began  # the first question may be the one that was carried out
                return answer
            refused = [m for m in misses.values() if isinstance(m, Refused)]
            if not renewed and any(m.status == 401 for m in refused) and self._credentials.refused(shown):
                renewed = True
                headers.update(self._credentials.headers())
                continue
            if len(misses) == len(self.urls) and len(refused) == len(misses) and refused[0].status not in (500, 503):
                raise refused[0]
            dead = all(isinstance(m, _NotListening) for m in misses.values()) and len(misses) == len(self.urls)
            if now() >= (min(end, began + _NOBODY_LISTENS) if dead else end):
                raise self._silence(method, path, misses, limit)
            time.sleep(max(0.0, min(self._lead, end - now())))

    def _round(self, method, path, body, query, headers, end, wait, misses):
        """Ask each peer once. None: no peer answered; misses has the reasons."""
        answers = queue.Queue()
        count, first = len(self.urls), self._first
        asked = open_ = 0
        next_at = now()
        while True:
            if asked < count and now() >= next_at:
                at = (first + asked) % count
                threading.Thread(
                    target=self._put, daemon=True,
                    args=(answers, at, method, path, body, query, headers, min(self._try + wait, max(0.1, end - now())))).start()
                asked, open_ = asked + 1, open_ + 1
                next_at = now() + wait + self._lead
            until = min(end, next_at) if asked < count else end
            try:
                at, answer, miss = answers.get(timeout=max(0.001, until - now()))
            except queue.Empty:
                if now() < end:
                    continue
                for n in range(asked):
                    misses.setdefault((first + n) % count, coordination.OperationTimedOut("no answer in time"))
                return None
            if answer is not None:
                self._first = at
                return answer
            if isinstance(miss, Refused) and miss.status in _DEFINITE:
                self._first = at
                raise miss
            if not isinstance(miss, coordination.ToozError):
                raise miss  # a mistake of the driver's is nobody's silence
            misses[at] = miss
            if self._first == at:
                self._first = (at + 1) % count
            open_ -= 1
            next_at = now()
            if asked == count and open_ == 0:
                return None

    def _put(self, answers, at, method, path, body, query, headers, limit):
        """Ask one peer, in a thread of its own."""
        try:
            answers.put((at, self._one(self.urls[at], method, path, body, query, headers, limit), None))
        except Exception as e:  # it is the caller's to judge, in another thread
            answers.put((at, None, e))

    def _one(self, url, method, path, body, query, headers, limit):
        target = url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        sent = now()
        try:
            reply = self._pool().request(
                method, target, body=body, headers=headers, redirect=False, preload_content=False,
                timeout=urllib3.Timeout(connect=min(limit, _CONNECT), total=limit))
        except urllib3.exceptions.NewConnectionError as e:
            raise _NotListening(_reason(e)) from e
        except urllib3.exceptions.SSLError as e:
            raise _NotListening("TLS: %s" % _reason(e)) from e
        except urllib3.exceptions.HTTPError as e:
            raise coordination.ToozConnectionError(_reason(e)) from e
        try:
            text = reply.read(_MAX_ANSWER + 1, decode_content=True)
            whole = len(text) <= _MAX_ANSWER
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise coordination.ToozConnectionError("read the answer: %s" % _reason(e)) from e
        finally:
            reply.release_conn()
        if not whole:
            raise coordination.ToozError("the answer has more than %d bytes" % _MAX_ANSWER)
        if 200 <= reply.status < 300:
            return Answer(reply.status, reply.headers, text, sent)
        raise _refusal(reply.status, text)

    def _silence(self, method, path, misses, limit):
        told = "; ".join("%s: %s" % (self.urls[at], misses[at]) for at in sorted(misses))
        return coordination.ToozConnectionError("%s %s: no peer of Trivet answered within %.1f s: %s" % (method, path, limit, told))

    def pages(self, path, field, marker_of, query=None):
        """All entries of a list, page after page."""
        query = dict(query or {}, limit="1000")
        for _ in range(_MAX_PAGES):
            page = self.ask("GET", path, query=query).json()
            entries = page.get(field) or []
            yield from entries
            if not page.get("more") or not entries:
                return
            query["marker"] = marker_of(entries[-1])
        raise coordination.ToozError("%s has more than %d pages" % (path, _MAX_PAGES))


class _NotListening(coordination.ToozConnectionError):
    """Nothing was sent to the peer: no connection was made."""


def _reason(e):
    return str(e).rsplit(": ", 1)[-1] or type(e).__name__


def _refusal(status, text):
    try:
        body = json.loads(text)
        message = body["error"]["message"]
    except (ValueError, KeyError, TypeError):
        body, message = None, text[:200].decode("utf-8", "replace")
    return Refused(status, "status %d: %s" % (status, message), body if isinstance(body, dict) else None)
