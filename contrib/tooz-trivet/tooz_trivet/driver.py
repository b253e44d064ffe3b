"""The coordinator: groups, elections, heartbeats."""

import base64
from concurrent import futures
import json
import logging
import threading

from tooz import coordination
from tooz import utils

from tooz_trivet import held
from tooz_trivet import keystone
from tooz_trivet import locks
from tooz_trivet import names
from tooz_trivet import wire

LOG = logging.getLogger(__name__)

_PORT = 5050
_MIN_TTL, _MAX_TTL = 2.0, 86400.0
_MAX_METADATA = 4096  # bytes that Trivet keeps for a member or a lease
_RENEWERS = 16  # renewals under way at once: peers commit those of one moment together
_TRIES = 20  # of a change of a group that another change came before

_OPTIONS = {"timeout", "lock_timeout", "membership_timeout", "leader_timeout", "ca_cert", "tls", "credentials", "token_file", "keystone", "keystone_section", "executor", "peer"}


class TrivetDriver(coordination.CoordinationDriverCachedRunWatchers,
                   coordination.CoordinationDriverWithExecutor):
    """Tooz on the leases of a Trivet cluster.

    trivet://HOST[:PORT][,HOST[:PORT]…][?OPTION=VALUE[&…]], with the options that the
    README lists. Heartbeats are needed: start(start_heart=True), or heartbeat() every
    third of the shortest time-out.
    """

    CHARACTERISTICS = (
        coordination.Characteristics.DISTRIBUTED_ACROSS_THREADS,
        coordination.Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
        coordination.Characteristics.DISTRIBUTED_ACROSS_HOSTS,
        coordination.Characteristics.LINEARIZABLE,
        coordination.Characteristics.SAME_VIEW_UNDER_PARTITIONS,
        coordination.Characteristics.SAME_VIEW_ACROSS_CLIENTS,
    )

    EXCLUDE_OPTIONS = frozenset(["peer"])  # each occurrence counts

    def __init__(self, member_id, parsed_url, options):
        super().__init__(member_id, parsed_url, options)
        more = options.get("peer", [])  # URLs of Python take one IPv6 address
        options = utils.collapse(options)
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise coordination.ToozError("trivet: no such option: %s; there are %s" % (", ".join(unknown), ", ".join(sorted(_OPTIONS))))
        ttl = _ttl(options, "timeout", 30)
        self._ttls = {kind: _ttl(options, kind + "_timeout", ttl) for kind in ("lock", "membership", "leader")}
        credentials = _credentials(options)
        tls = _yes("tls", options.get("tls", "true" if options.get("ca_cert") else "false"))
        self.peers = wire.Peers(_servers(",".join([parsed_url.netloc, *([more] if isinstance(more, str) else more)]), tls), credentials, options.get("ca_cert"), min(self._ttls.values()))
        self.who = names.to_bytes(member_id).decode("utf-8", "backslashreplace")[:60]
        self._guard = threading.Lock()
        self._locks = set()  # that are acquired
        self._memberships = {}  # group ID to Held
        self._led = {}  # group ID to Held

    # Life

    def _start(self):
        super()._start()
        try:
            self.peers.ask("GET", "/v1/leases", query={"limit": "1"})
        except wire.Refused as e:
            raise coordination.ToozError("trivet: leases of %s: %s" % (", ".join(self.peers.urls), e)) from e

    def _stop(self):
        for lock in list(self._locks):
            _quietly(lock.release)
        for group_id in list(self._led):
            _quietly(lambda group=group_id: self.stand_down_group_leader(group))
        for held_ in list(self._memberships.values()):
            _quietly(held_.release)
        self._memberships.clear()
        super()._stop()

    def heartbeat(self):
        """Renew locks, memberships and leaderships; seconds until the next is due.

        Raises the error of one that no peer answered while it is still held.
        """
        beats = [lock.heartbeat for lock in list(self._locks)]
        beats += [lambda g=g: self._beat("membership of", self._memberships, g) for g in list(self._memberships)]
        beats += [lambda g=g: self._beat("leadership of", self._led, g) for g in list(self._led)]
        if len(beats) == 1:
            beats[0]()
        elif beats:
            with futures.ThreadPoolExecutor(max_workers=min(_RENEWERS, len(beats))) as pool:
                errors = [f.exception() for f in [pool.submit(beat) for beat in beats]]
            for error in filter(None, errors):
                raise error
        # Tooz waits for half of it: a third of the ttl, with room for two tries before
        # what is held counts as lost.
        return min(self._ttls.values()) * 2 / 3

    def _beat(self, what, table, group_id):
        held_ = table.get(group_id)
        if held_ is None:
            return
        try:
            if held_.renew():
                return
        except coordination.ToozError:
            if held_.valid:
                raise
        if table.get(group_id) is held_:
            table.pop(group_id, None)
            if table is self._memberships:
                self._joined_groups.discard(group_id)
            self.lost(what, group_id)

    @staticmethod
    def lost(what, name):
        LOG.warning("%s %r lost: no heartbeat was answered in time, or it was taken away", what, name)

    # Locks

    def get_lock(self, name):
        return locks.TrivetLock(self, name, self._ttls["lock"])

    def keep(self, lock):
        with self._guard:
            self._locks.add(lock)

    def forget(self, lock):
        with self._guard:
            self._locks.discard(lock)

    # Groups: a value that is there while the group is, and members below /v1/groups.

    def _result(self, call, *args):
        return coordination.CoordinatorResult(self._executor.submit(call, *args))

    def create_group(self, group_id):
        return self._result(self._create_group, group_id)

    def _create_group(self, group_id):
        try:
            self.peers.ask("PUT", _value(group_id), names.to_bytes(group_id), headers={"If-None-Match": "*"})
        except wire.Refused as e:
            if e.status == 412:
                raise coordination.GroupAlreadyExist(group_id) from e
            raise

    def get_groups(self):
        return self._result(self._get_groups)

    def _get_groups(self):
        keys = [v["key"] for v in self.peers.pages("/v1/kv", "values", lambda v: v["key"], {"prefix": names.GROUP_KEYS})]
        return [group for group in map(self._group_of, keys) if group is not None]

    def _group_of(self, key):
        """The ID of a group, None if the group is gone."""
        plain = key[len(names.GROUP_KEYS):]
        if plain.startswith("n."):
            return plain[2:].encode("ascii")
        try:
            return self.peers.ask("GET", "/v1/kv/" + key).body
        except wire.Refused as e:
            if e.status == 404:
                return None
            raise

    def _version(self, group_id):
        try:
            return self.peers.ask("GET", _value(group_id)).headers["ETag"]
        except wire.Refused as e:
            if e.status == 404:
                raise coordination.GroupNotCreated(group_id) from e
            raise

    def delete_group(self, group_id):
        return self._result(self._delete_group, group_id)

    def _delete_group(self, group_id):
        # A member that joins changes the version after it has joined. So either it is
        # seen here, or the version is another one than that which is deleted.
        for _ in range(_TRIES):
            version = self._version(group_id)
            if self._members(group_id):
                raise coordination.GroupNotEmpty(group_id)
            if self._if_version("DELETE", group_id, version):
                return
        raise coordination.ToozError("delete group %r: it changes too often" % group_id)

    def _destroy_group(self, group_id):
        self.peers.ask("DELETE", _value(group_id), headers={"If-Match": self._version(group_id)})

    def _if_version(self, method, group_id, version):
        try:
            body = names.to_bytes(group_id) if method == "PUT" else None
            self.peers.ask(method, _value(group_id), body, headers={"If-Match": version})
        except wire.Refused as e:
            if e.status == 412:
                return False
            raise
        return True

    def join_group(self, group_id, capabilities=b""):
        return self._result(self._join_group, group_id, capabilities)

    def _join_group(self, group_id, capabilities):
        metadata = self._metadata(capabilities)
        self._version(group_id)
        lease = names.membership(group_id, self._member_id)
        held_ = held.acquire(self.peers, lease, self.who, self._ttls["membership"], margin=0.0)
        if held_ is None:
            raise coordination.MemberAlreadyExist(group_id, self._member_id)
        try:
            self._put_member(group_id, lease, held_, metadata)
            self._touch(group_id)
        except BaseException:
            _quietly(held_.release)
            raise
        self._memberships[group_id] = held_
        self._joined_groups.add(group_id)

    def _put_member(self, group_id, lease, held_, metadata):
        member = {"lease": lease, "token": str(held_.token), "metadata": metadata}
        self.peers.ask("PUT", _member(group_id, self._member_id), member)

    def _touch(self, group_id):
        """Tell who deletes the group that it has a member more."""
        for _ in range(_TRIES):
            if self._if_version("PUT", group_id, self._version(group_id)):
                return
        raise coordination.ToozError("join group %r: it changes too often" % group_id)

    def _metadata(self, capabilities):
        text = json.dumps({
            "member": base64.b64encode(names.to_bytes(self._member_id)).decode("ascii"),
            "capabilities": base64.b64encode(utils.dumps(capabilities)).decode("ascii"),
        })
        if len(text) > _MAX_METADATA:
            raise coordination.ToozError("capabilities of %r take %d bytes, and %d are kept" % (self._member_id, len(text), _MAX_METADATA))
        return text

    def leave_group(self, group_id):
        return self._result(self._leave_group, group_id)

    def _leave_group(self, group_id):
        mine = self._memberships.pop(group_id, None)
        self._joined_groups.discard(group_id)
        lease = names.membership(group_id, self._member_id)
        found = held.read(self.peers, lease)  # another instance of this member may have joined
        if found is None:
            self._version(group_id)
            raise coordination.MemberNotJoined(group_id, self._member_id)
        if mine is not None:
            mine.end()
        held.end_grant(self.peers, lease, found["holder"], found["token"])

    def get_members(self, group_id):
        return self._result(self._get_members, group_id)

    def _get_members(self, group_id):
        self._version(group_id)
        return set(self._members(group_id))

    def _members(self, group_id):
        """The members by their IDs, as the group's list has them."""
        all_ = {}
        for member in self.peers.pages("/v1/groups/" + names.group(group_id), "members", lambda m: m["id"]):
            try:
                said = json.loads(member["metadata"])
                all_[base64.b64decode(said["member"])] = base64.b64decode(said["capabilities"])
            except (ValueError, KeyError, TypeError):
                LOG.warning("group %r: member %s is not Tooz's, it is left out", group_id, member.get("id"))
        return all_

    def get_member_capabilities(self, group_id, member_id):
        return self._result(self._get_member_capabilities, group_id, member_id)

    def _get_member_capabilities(self, group_id, member_id):
        self._version(group_id)
        try:
            return utils.loads(self._members(group_id)[names.to_bytes(member_id)])
        except KeyError:
            raise coordination.MemberNotJoined(group_id, member_id) from None

    def get_member_info(self, group_id, member_id):
        return self._result(lambda: {"capabilities": self._get_member_capabilities(group_id, member_id)})

    def update_capabilities(self, group_id, capabilities):
        return self._result(self._update_capabilities, group_id, capabilities)

    def _update_capabilities(self, group_id, capabilities):
        held_ = self._memberships.get(group_id)
        if held_ is None:
            self._version(group_id)
            raise coordination.MemberNotJoined(group_id, self._member_id)
        try:
            self._put_member(group_id, names.membership(group_id, self._member_id), held_, self._metadata(capabilities))
        except wire.Refused as e:
            if e.status == 412:
                raise coordination.MemberNotJoined(group_id, self._member_id) from e
            raise

    # Elections

    def run_elect_coordinator(self):
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            led = self._led.get(group_id)
            if led is not None and led.valid:
                continue
            metadata = base64.b64encode(names.to_bytes(self._member_id)).decode("ascii")
            led = held.acquire(self.peers, names.leader(group_id), self.who, self._ttls["leader"], metadata=metadata)
            if led is not None:
                self._led[group_id] = led
                hooks.run(coordination.LeaderElected(group_id, self._member_id))

    def run_watchers(self, timeout=None):
        result = super().run_watchers(timeout=timeout)
        self.run_elect_coordinator()
        return result

    def stand_down_group_leader(self, group_id):
        """Stop to lead a group; False if it was not led until now."""
        led = self._led.pop(group_id, None)
        return led is not None and led.release()

    def get_leader(self, group_id):
        return self._result(self._get_leader, group_id)

    def _get_leader(self, group_id):
        found = held.read(self.peers, names.leader(group_id))
        return None if found is None else base64.b64decode(found["metadata"])

    def leader_token(self, group_id):
        """The fencing token of a leadership; None if this member does not lead now."""
        led = self._led.get(group_id)
        return led.token if led is not None and led.valid else None


def _value(group_id):
    return "/v1/kv/" + names.group_key(group_id)


def _member(group_id, member_id):
    return "/v1/groups/%s/members/%s" % (names.group(group_id), names.member(member_id))


def _quietly(call):
    try:
        call()
    except coordination.ToozError as e:
        LOG.warning("a lease was not released and ends by itself: %s", e)


def _credentials(options):
    named = [name for name in ("credentials", "token_file", "keystone") if options.get(name)]
    if len(named) > 1:
        raise coordination.ToozError("trivet: %s exclude each other: name one" % " and ".join(named))
    if options.get("keystone"):
        return keystone.Keystone(options["keystone"], options.get("keystone_section", "keystone"), options.get("ca_cert"))
    return wire.Credentials(options.get("credentials"), options.get("token_file"))


def _ttl(options, name, default):
    text = options.get(name, default)
    try:
        ttl = float(text)
    except ValueError:
        ttl = 0.0
    if not _MIN_TTL <= ttl <= _MAX_TTL:
        raise coordination.ToozError("trivet: %s is %d to %d seconds, not %s" % (name, _MIN_TTL, _MAX_TTL, text))
    return ttl


def _yes(name, text):
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise coordination.ToozError("trivet: %s is true or false, not %s" % (name, text))


def _servers(netloc, tls):
    if "@" in netloc:
        raise coordination.ToozError("trivet: a password in a URL shows in logs: name a file, ?credentials=/path")
    urls = []
    for host in filter(None, (part.strip() for part in netloc.split(","))):
        name, colon, port = host.rpartition(":")
        if not colon or name.count(":") != host.count(":") - 1 or host.endswith("]"):
            name, port = host, str(_PORT)
        if not port.isdigit() or not name or (":" in name and not name.startswith("[")):
            raise coordination.ToozError("trivet: write HOST or HOST:PORT, and [ADDRESS]:PORT for IPv6, not %r" % host)
        urls.append("%s://%s:%s" % ("https" if tls else "http", name, port))
    if not urls:
        raise coordination.ToozError("trivet: no host: write trivet://host1,host2,host3")
    return urls
