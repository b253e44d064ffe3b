"""Locks of Tooz on leases."""

import threading
import time

import tooz
from tooz import coordination
from tooz import locking
from tooz import utils

from tooz_trivet import held
from tooz_trivet import names
from tooz_trivet import wire


class TrivetLock(locking.Lock):
    """A lock that one holder has, in all the cluster, for as long as heartbeats go on."""

    def __init__(self, coordinator, name, ttl):
        super().__init__(name)
        self._coordinator = coordinator
        self._lease = names.lock(name)
        self._ttl = ttl
        self._held = None
        self._guard = threading.Lock()

    @property
    def acquired(self):
        """Whether the lock is held at this moment, for all that can be proved here.

        It turns False when no heartbeat was answered for two thirds of the ttl, before
        the cluster may give the lock to another.
        """
        held_ = self._held
        return held_ is not None and held_.valid

    @property
    def fencing_token(self):
        """A number that rises with every grant in the cluster; None if not acquired.

        Send it with each change, and have the changed resource refuse a lower one than
        it has seen: that makes a holder harmless who does not know that its time is over.
        """
        held_ = self._held
        return held_.token if held_ is not None and held_.valid else None

    def acquire(self, blocking=True, shared=False):
        if shared:
            raise tooz.NotImplemented
        blocking, timeout = utils.convert_blocking(blocking)
        end = None if timeout is None else wire.now() + timeout
        wait = 0.0  # at a peer; at first none, so that a silent one does not delay what is free
        while True:
            began = wire.now()
            left = None if end is None else max(0.0, end - began)
            if not self.acquired and self._take(wait, None if left is None else max(1.0, left)):
                return True
            if not blocking or end is not None and wire.now() >= end:
                return False
            # A peer waits for what another program holds; what this object holds, and
            # what nobody could wait for, is looked at again after a moment.
            if wire.now() - began < 0.1:
                time.sleep(0.1 if end is None else max(0.0, min(0.1, end - wire.now())))
            # The refusal has to come while somebody listens.
            wait = wire.MAX_WAIT if end is None else max(0.0, min(wire.MAX_WAIT, end - wire.now() - 0.5))

    def _take(self, wait, limit):
        taken = held.acquire(self._coordinator.peers, self._lease, self._coordinator.who, self._ttl, wait=wait, limit=limit)
        if taken is None:
            return False
        with self._guard:
            self._held = taken
        self._coordinator.keep(self)
        return True

    def _drop(self):
        with self._guard:
            was, self._held = self._held, None
        self._coordinator.forget(self)
        return was

    def release(self):
        """Release the lock; False if it was not held until now."""
        was = self._drop()
        return was is not None and was.release()

    def break_(self):
        """Take the lock from whoever has it; False if nobody has it."""
        found = held.read(self._coordinator.peers, self._lease)
        return found is not None and held.end_grant(
            self._coordinator.peers, self._lease, found["holder"], found["token"])

    def is_still_owner(self):
        """Whether the cluster itself says so, now.

        Raises ToozConnectionError when no peer answers before the lock may be lost.
        """
        return self.heartbeat()

    def heartbeat(self):
        """Have the lock for its whole ttl again; False if it is not held any more."""
        held_ = self._held
        if held_ is None:
            return False
        try:
            if held_.renew():
                return True
        except coordination.ToozError:
            if held_.valid:
                raise  # it is held for some time yet: the next heartbeat tries again
        if self._held is held_:  # else it was released meanwhile
            self._coordinator.lost("lock", self._name)
            self._coordinator.forget(self)
        return False
