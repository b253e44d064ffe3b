"""Names of Tooz, which are any bytes, as names that Trivet takes.

A lease and a group are named by small letters, digits, '-' and '.'; a member by
letters, digits, '-', '_' and '.'. What is such a name already stays readable. Two
different names of Tooz never become one: each of the three forms has a letter of its
own in front.
"""

import base64
import hashlib
import re

# Trivet takes 253 bytes for a lease or a group; the driver's own prefix is short.
_LONGEST = 200
_LONGEST_MEMBER = 62
_PLAIN = re.compile(rb"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_PLAIN_MEMBER = re.compile(rb"[A-Za-z0-9_.-]+")

#: What the keys of groups begin with, in /v1/kv.
GROUP_KEYS = "tooz:group:"


def to_bytes(name):
    """The bytes of a name of Tooz; text is UTF-8."""
    if isinstance(name, str):
        return name.encode("utf-8")
    if isinstance(name, (bytes, bytearray)):
        return bytes(name)
    raise TypeError("a name is bytes or text, not %s" % type(name).__name__)


def _encode(name):
    if len(name) <= _LONGEST and _PLAIN.fullmatch(name):
        return "n." + name.decode("ascii")
    if 2 * len(name) <= _LONGEST:
        return "x." + name.hex() + ".x"  # the end is a letter also of no bytes at all
    return "h." + hashlib.sha256(name).hexdigest()


def lock(name):
    """The lease of a lock."""
    return "tooz.lock." + _encode(to_bytes(name))


def leader(group_id):
    """The lease of a group's leader."""
    return "tooz.leader." + _encode(to_bytes(group_id))


def membership(group_id, member_id):
    """The lease that a member of a group holds while it is one."""
    group, member = to_bytes(group_id), to_bytes(member_id)
    both = len(group).to_bytes(8, "big") + group + member
    return "tooz.member." + hashlib.sha256(both).hexdigest()


def group(group_id):
    """The group, below /v1/groups."""
    return "tooz." + _encode(to_bytes(group_id))


def group_key(group_id):
    """The key of the value that says that a group was created; the value is its ID."""
    return GROUP_KEYS + _encode(to_bytes(group_id))


def member(member_id):
    """The member, below /v1/groups/GROUP/members."""
    raw = to_bytes(member_id)
    if len(raw) <= _LONGEST_MEMBER and _PLAIN_MEMBER.fullmatch(raw):
        return "n." + raw.decode("ascii")
    text = base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
    if len(text) <= _LONGEST_MEMBER:
        return "x." + text
    return "h." + base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode("ascii").rstrip("=")
