"""Leases that are held, and what can be proved of them."""

import threading
import uuid

from tooz import coordination

from tooz_trivet import wire

MARGIN = 1 / 3  # of a ttl, before its end
_LATE = 1 / 3  # of a ttl: a grant that old when it arrives is renewed first


def path(name):
    return "/v1/leases/" + name


class Held:
    """A grant, until it is released or may be over.

    It counts as held from before it was asked for, by a clock that goes on in sleep,
    and as over a margin before the cluster may grant it to another: what clocks differ
    in, and the time to stop. A renewal that is answered later revives nothing. Any
    thread may call it.
    """

    def __init__(self, peers, name, holder, ttl, margin, answer):
        self._peers, self._name, self._holder, self._ttl, self._margin = peers, name, holder, ttl, ttl * margin
        self._lock = threading.Lock()
        grant = answer.json()
        self.token = int(grant["token"])
        self._deadline = self._until(answer.sent, grant)
        self._over = False

    def _until(self, sent, grant):
        return sent + min(self._ttl, int(grant["remaining_ms"]) / 1000.0) - self._margin

    @property
    def valid(self):
        """Whether it is held at this moment, without asking anybody."""
        with self._lock:
            if wire.now() >= self._deadline:
                self._over = True
            return not self._over

    @property
    def left(self):
        """Seconds until it counts as over, unless it is renewed."""
        with self._lock:
            return 0.0 if self._over else max(0.0, self._deadline - wire.now())

    def _showing(self):
        return {"holder": self._holder, "token": str(self.token)}

    def renew(self):
        """Have it for its whole ttl again; False if it is over.

        Raises ToozConnectionError when no peer answers before the deadline.
        """
        if not self.valid:
            return False
        try:
            answer = self._peers.ask("POST", path(self._name) + "/renew", self._showing(), limit=max(0.1, self.left))
        except wire.Refused as e:
            if e.status in (404, 409, 410):
                self.end()
                return False
            raise
        if not self.valid:
            return False  # it was told to be over, and somebody may have acted on that
        until = self._until(answer.sent, answer.json())
        with self._lock:
            self._deadline = max(self._deadline, until)
        return self.valid

    def end(self):
        """Have it be over here; returns whether it was held until now."""
        was = self.valid
        with self._lock:
            self._over = True
        return was

    def release(self):
        """End it for the cluster, and delete its record; False if it was over."""
        was = self.end()
        return end_grant(self._peers, self._name, self._holder, self.token) and was


def end_grant(peers, name, holder, token):
    """Release a grant of anybody's; False if another grant has the lease.

    The record of the free lease is deleted, for the table of leases is bounded. Every
    later grant has a greater token all the same.
    """
    try:
        peers.ask("DELETE", path(name), query={"holder": holder, "token": str(token)})
    except wire.Refused as e:
        if e.status == 409:
            return False
        if e.status not in (404, 410):
            raise
    try:
        peers.ask("DELETE", path(name), query={"record": "1"})
    except coordination.ToozError:
        pass  # another has it already, or nobody answers: the record may stay
    return True


def acquire(peers, name, who, ttl, wait=0.0, metadata="", limit=None, margin=MARGIN):
    """Acquire a lease; None if another holds it, after `wait` seconds.

    `margin`, a part of the ttl, is 0 for what gives nobody a right, as a membership.
    `who` is for people; each acquisition is a holder of its own, so that no two of them
    are mistaken for one.
    """
    request = str(uuid.uuid4())
    holder = "%s#%s" % (who[:200], request[:13])
    body = {"holder": holder, "ttl_ms": int(ttl * 1000), "request_id": request, "metadata": metadata, "wait_ms": int(wait * 1000)}
    try:
        held = Held(peers, name, holder, ttl, margin, peers.ask("PUT", path(name), body, limit=limit, wait=wait))
    except wire.Refused as e:
        if e.status in (409, 410):  # 410: it was granted, and its time is over
            return None
        raise
    if held.left < ttl * (1 - margin - _LATE):
        return held if held.renew() else _give_up(held)
    return held


def _give_up(held):
    try:
        held.release()
    except coordination.ToozError:
        pass  # it ends by itself
    return None


def read(peers, name):
    """The lease as it stands, None if nobody has it."""
    try:
        found = peers.ask("GET", path(name)).json()
    except wire.Refused as e:
        if e.status == 404:
            return None
        raise
    return found if found.get("holder") else None
