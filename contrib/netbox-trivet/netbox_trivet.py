#!/usr/bin/python3
"""Write what Trivet knows of machines into NetBox.

It reads the public API of Trivet and writes serial numbers, interfaces with their MACs,
inventory items and cables of devices that NetBox has. What it makes has the tag "trivet";
it changes and deletes nothing else. Python's standard library alone is used.
"""

import argparse
import base64
import collections
import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request

TAG = {"name": "trivet", "slug": "trivet"}
LIMIT = 60.0  # seconds for one call
TRY = 12.0  # seconds for one read from one of several servers
MOST = 32 << 20  # bytes of one answer
PAGE = 500


class Failure(Exception):
    """One thing that could not be done; the text names device and field."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials are shown to no other server."""

    def redirect_request(self, *_):
        return None


class Service:
    """An HTTP service that speaks JSON. Of several URLs the first that answers counts, and is asked first from then on."""

    def __init__(self, urls, headers, cacert=None):
        self.urls, self.headers = [u.rstrip("/") for u in urls], headers
        context = ssl.create_default_context(cafile=cacert)
        self.opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))

    def prefer(self, url):
        """Asks this server first from now on: one that is dead costs its time once."""
        self.urls.sort(key=lambda other: other != url)

    def call(self, method, path, body=None):
        text = None if body is None else json.dumps(body).encode()
        failed, limit = [], TRY if method == "GET" and len(self.urls) > 1 else LIMIT
        for url in list(self.urls):
            request = urllib.request.Request(url + path, text, {"Accept": "application/json", **self.headers}, method=method)
            if text is not None:
                request.add_header("Content-Type", "application/json")
            try:
                with self.opener.open(request, timeout=limit) as answer:
                    content = answer.read(MOST + 1)
                self.prefer(url)
            except urllib.error.HTTPError as error:
                said = error.read(2000).decode(errors="replace")
                if error.code < 500:
                    self.prefer(url)
                if error.code == 404 and method == "GET":
                    return None
                if error.code < 500 or method != "GET":
                    raise Failure(f"{method} {url}{path}: {error.code}: {said}") from None
                failed.append(f"{url}{path}: {error.code}: {said}")
                continue
            except OSError as error:
                if method != "GET":  # it may have been done: the next run sees it
                    raise Failure(f"{method} {url}{path}: {error}") from None
                failed.append(f"{url}{path}: {error}")
                continue
            if len(content) > MOST:
                raise Failure(f"{method} {url}{path}: the answer has more than {MOST} bytes")
            try:
                return json.loads(content) if content else {}
            except ValueError as error:
                raise Failure(f"{method} {url}{path}: the answer is not JSON: {error}") from None
        raise Failure("; ".join(failed))


class Trivet(Service):
    """The peers of a cluster."""

    def nodes(self):
        """UUID and name of each node whose last inspection finished."""
        names = {n["uuid"]: n["name"] for n in (self.call("GET", "/v1/nodes") or {}).get("nodes", [])}
        marker, query = None, {"limit": PAGE, "state": "finished"}
        while True:
            page = self.call("GET", "/v1/introspection?" + urllib.parse.urlencode(query))["introspection"]
            yield from ((n["uuid"], names.get(n["uuid"]) or n["uuid"]) for n in page)
            if len(page) < PAGE or page[-1]["uuid"] == marker:
                return
            marker = query["marker"] = page[-1]["uuid"]

    def data(self, uuid):
        return self.call("GET", f"/v1/introspection/{uuid}/data")

    def cables(self, uuid):
        return (self.call("GET", f"/v1/nodes/{uuid}/cabling") or {"cables": []})["cables"]


class NetBox(Service):
    """NetBox 4.2 or later. With dry set it changes nothing. say is told each change."""

    def __init__(self, url, token, cacert, dry, say):
        scheme = "Bearer" if token.startswith("nbt_") else "Token"
        super().__init__([url.rstrip("/") + "/api"], {"Authorization": f"{scheme} {token}"}, cacert)
        self.dry, self.say, self.changes = dry, say, 0

    def check(self):
        status = self.call("GET", "/status/")
        version = (status or {}).get("netbox-version", "")
        numbers = version.split("-")[0].split(".")[:2]
        if not all(n.isdigit() for n in numbers) or len(numbers) < 2 or tuple(map(int, numbers)) < (4, 2):
            raise Failure(f"{self.urls[0]}: NetBox {version or 'of an unknown version'}: 4.2 or later is needed, which has MACs as objects")
        if not self.list("extras/tags", slug=TAG["slug"]):
            self.change("POST", "extras/tags", None, TAG, "tag trivet")

    def list(self, kind, **query):
        """All objects of a kind that match."""
        out, at = [], 0
        while True:
            text = urllib.parse.urlencode({**query, "limit": PAGE, "offset": at}, doseq=True)
            page = self.call("GET", f"/{kind}/?{text}")
            if page is None:
                raise Failure(f"{self.urls[0]}/{kind}/ does not exist: is this NetBox?")
            out += page["results"]
            at += len(page["results"])
            if not page["next"] or not page["results"]:
                return out

    def change(self, method, kind, number, body, what):
        """Make, change or delete an object and return it; in a dry run its body."""
        self.changes += 1
        verb = {"POST": "create", "PATCH": "change", "DELETE": "delete"}[method]
        self.say(f"{'would ' if self.dry else ''}{verb} {what}")
        if self.dry:
            return {"id": number, **(body or {})}
        path = f"/{kind}/" + (f"{number}/" if number is not None else "")
        try:
            return self.call(method, path, body)
        except Failure as failure:
            raise Failure(f"{verb} {what}: {failure}") from None


# What makers write instead of a serial number.
BLANK = {"none", "n/a", "na", "unknown", "not specified", "to be filled by o.e.m.", "default string", "empty", "system serial number"}


def serial_of(data):
    """The serial number of a machine; empty where it has none of its own."""
    text = ((data["inventory"].get("system_vendor") or {}).get("serial_number") or "").strip()
    return "" if text.lower() in BLANK or not text.strip("0xX:-. ") else text


def find(netbox, name, serial, others):
    """The device of a machine: by its serial number, else by the node's name. others are the names of the other nodes."""
    by_serial = netbox.list("dcim/devices", serial=serial) if serial else []
    by_name = netbox.list("dcim/devices", name=name)
    found = by_serial or by_name
    if len(found) != 1:
        raise Failure(f"NetBox has {len(found)} devices with the serial number {serial!r} or the name {name!r}; one is needed")
    device = found[0]
    if by_serial and by_name and all(d["id"] != device["id"] for d in by_name):
        raise Failure(f"the serial number {serial!r} is that of {device['name']!r} in NetBox, which has another device {name!r}")
    if device["name"] in others and device["name"] != name:
        raise Failure(f"the serial number {serial!r} is that of {device['name']!r} in NetBox, which is the name of another node")
    if serial and device["serial"] and device["serial"] != serial:
        raise Failure(f"serial: NetBox has {device['serial']!r}, the machine says {serial!r}; it may be another machine, and nothing of it is written")
    return device


def ours(thing):
    return any(tag["slug"] == TAG["slug"] for tag in thing.get("tags") or [])


def mac(text):
    return (text or "").lower()


class Export:
    """One device: what the machine is like, and what NetBox says of it."""

    def __init__(self, netbox, name, device, serial, data, cables, prune):
        self.netbox, self.name, self.device, self.serial, self.cables, self.prune = netbox, name, device, serial, cables, prune
        self.inventory, self.problems = data["inventory"], []

    def problem(self, field, text):
        self.problems.append(f"{self.name}: {field}: {text}")

    def run(self):
        for step, what in ((self.fill, "device"), (self.interfaces, "interfaces"), (self.items, "inventory items"), (self.cable, "cable")):
            try:
                step()
            except Failure as failure:
                self.problem(what, str(failure))
                if step == self.fill:
                    break
        return self.problems

    def fill(self):
        """Gives a device without a serial number that of its machine."""
        if self.serial and not self.device["serial"]:
            self.netbox.change("PATCH", "dcim/devices", self.device["id"], {"serial": self.serial}, f"serial of {self.name}: {self.serial}")

    def interfaces(self):
        """Each card of the machine is an interface: that with its MAC, else that with its name."""
        there = self.netbox.list("dcim/interfaces", device_id=self.device["id"])
        by_mac = {mac(m["mac_address"]): i for i in there for m in i.get("mac_addresses") or []}
        by_name = {i["name"]: i for i in there}
        self.by_mac, told = {}, set()
        for card in self.inventory.get("interfaces") or []:
            address, name = mac(card.get("mac_address")), (card.get("name") or "")[:64]
            if not address or not name:
                continue
            found = by_mac.get(address) or by_name.get(name)
            if found is None:
                found = self.netbox.change("POST", "dcim/interfaces", None,
                                           {"device": self.device["id"], "name": name, "type": "other", "tags": [TAG]},
                                           f"interface {name} of {self.name}")
            self.by_mac[address] = found
            told.add(found["id"])
            if address not in by_mac:
                self.address(found, name, address)
        for left in there:
            if ours(left) and left["id"] not in told:
                self.stale("dcim/interfaces", left, f"interface {left['name']} of {self.name}")

    def address(self, interface, name, address):
        """Gives an interface its MAC. One that an operator wrote stays."""
        has = interface.get("mac_addresses") or []
        foreign = [m["mac_address"] for m in has if not ours(self.macs(m["id"]))]
        if foreign:
            self.problem(f"interface {name}: mac_address", f"NetBox has {', '.join(foreign)}, the machine says {address}; not changed")
            return
        made = self.netbox.change("POST", "dcim/mac-addresses", None,
                                  {"mac_address": address.upper(), "assigned_object_type": "dcim.interface",
                                   "assigned_object_id": interface["id"], "tags": [TAG]}, f"MAC {address} of {self.name} {name}")
        self.netbox.change("PATCH", "dcim/interfaces", interface["id"], {"primary_mac_address": made["id"]},
                           f"primary_mac_address of {self.name} {name}: {address}")
        for old in has:
            self.netbox.change("DELETE", "dcim/mac-addresses", old["id"], None, f"MAC {mac(old['mac_address'])} of {self.name} {name}")

    def macs(self, number):
        return self.netbox.call("GET", f"/dcim/mac-addresses/{number}/") or {}

    def items(self):
        """Disks and processors are inventory items."""
        there = {i["name"]: i for i in self.netbox.list("dcim/inventory-items", device_id=self.device["id"])}
        wanted = dict(self.parts())
        for name, fields in wanted.items():
            has = there.get(name)
            what = f"inventory item {name} of {self.name}"
            if has is None:
                self.netbox.change("POST", "dcim/inventory-items", None,
                                   {"device": self.device["id"], "name": name, "discovered": True, "tags": [TAG], **fields}, what)
            elif differing := {k: v for k, v in fields.items() if has.get(k) != v}:
                if ours(has):
                    self.netbox.change("PATCH", "dcim/inventory-items", has["id"], differing, f"{what}: {', '.join(sorted(differing))}")
                else:
                    self.problem(f"inventory item {name}", f"{', '.join(sorted(differing))} differ, and Trivet did not make it; not changed")
        for name, left in there.items():
            if ours(left) and name not in wanted:
                self.stale("dcim/inventory-items", left, f"inventory item {name} of {self.name}")

    def parts(self):
        for disk in self.inventory.get("disks") or []:
            number = disk.get("serial") or disk.get("wwn") or disk.get("by_path") or disk.get("name") or ""
            kind = "HDD" if disk.get("rotational") else "SSD"
            yield f"disk {number}"[:64], {"serial": (disk.get("serial") or "")[:50], "part_id": (disk.get("model") or "")[:50],
                                          "description": f"{kind}, {int(disk.get('size') or 0) / 1e9:.0f} GB"}
        cpu = self.inventory.get("cpu") or {}
        if cpu.get("model_name"):
            yield "CPU", {"serial": "", "part_id": cpu["model_name"][:50],
                          "description": f"{cpu.get('count')} threads, {cpu.get('architecture')}"[:200]}

    def cable(self):
        """Each cable that a switch told of by LLDP, where NetBox has that switch and port."""
        for one in self.cables:
            interface = self.by_mac.get(mac(one["mac"]))
            if not interface or not one["switch"] or not one["port"]:
                continue
            field = f"interface {one['interface']}: cable"
            switches = self.netbox.list("dcim/devices", name=one["switch"])
            ports = self.netbox.list("dcim/interfaces", device_id=switches[0]["id"], name=one["port"]) if len(switches) == 1 else []
            if len(ports) != 1:
                self.problem(field, f"NetBox has no port {one['port']!r} of a switch {one['switch']!r}; not written")
                continue
            try:
                self.plug(interface, ports[0], f"{self.name} {one['interface']} and {one['switch']} {one['port']}", field)
            except Failure as failure:
                self.problem(field, str(failure))

    def plug(self, interface, port, ends, field):
        if any(peer["id"] == port["id"] for peer in interface.get("link_peers") or []):
            return
        old = {c["id"]: c for c in (interface.get("cable"), port.get("cable")) if c}
        for number in old:
            if not ours(self.netbox.call("GET", f"/dcim/cables/{number}/") or {}):
                self.problem(field, f"NetBox has another cable there ({number}), LLDP says {ends}; not changed")
                return
        for number in old:
            self.netbox.change("DELETE", "dcim/cables", number, None, f"cable {number}, for that between {ends}")
        end = lambda thing: [{"object_type": "dcim.interface", "object_id": thing["id"]}]  # noqa: E731
        self.netbox.change("POST", "dcim/cables", None, {"a_terminations": end(interface), "b_terminations": end(port),
                                                         "status": "connected", "tags": [TAG]}, f"cable between {ends}")

    def stale(self, kind, thing, what):
        """What Trivet made and the machine has no more. It stays, unless --prune says otherwise."""
        if self.prune:
            self.netbox.change("DELETE", kind, thing["id"], None, what)
        else:
            self.netbox.say(f"{what}: the machine does not have it any more; --prune deletes it")


class Run:
    """All nodes that are written. Which device each is stands before anything is written: two
    machines that pass for one, as by a serial number that their maker wrote twice, would write
    over each other."""

    def __init__(self, trivet, netbox, prune):
        self.trivet, self.netbox, self.prune, self.problems = trivet, netbox, prune, []

    def guarded(self, name, step, *args):
        """Does a step for a node, and keeps what is wrong with it from the others."""
        try:
            return step(*args)
        except Failure as failure:
            self.problems.append(f"{name}: {failure}")
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            self.problems.append(f"{name}: data: not of the form that is known: {type(wrong).__name__}: {wrong}")
        return None

    def data(self, uuid):
        try:
            data = self.trivet.data(uuid)
        except Failure as failure:
            raise Failure(f"data: {failure}") from None
        if data is None:
            raise Failure("data: none is stored (inspection.store_data)")
        return data

    def write(self, nodes, every):
        """Writes nodes, of every node that there is; both are pairs of UUID and name."""
        serials = {}
        for uuid, name in nodes:
            serial = self.guarded(name, lambda: serial_of(self.data(uuid)))
            if serial is not None:
                serials[uuid] = serial
        told, names = collections.Counter(serials.values()), {name for _, name in every}
        devices = {}
        for uuid, name in nodes:
            if uuid not in serials:
                continue
            if told[serials[uuid]] > 1:
                serials[uuid] = ""
            device = self.guarded(name, self.device, name, serials[uuid], names)
            if device:
                devices.setdefault(device["id"], []).append((uuid, name, device))
        for claims in devices.values():
            if len(claims) > 1:
                both = " and ".join(name for _, name, _ in claims)
                self.problems.append(f"{both}: device: each of them is {claims[0][2]['name']!r} in NetBox; nothing of them is written")
                continue
            for uuid, name, device in claims:
                self.guarded(name, self.export, uuid, name, device, serials[uuid])

    def device(self, name, serial, names):
        try:
            return find(self.netbox, name, serial, names)
        except Failure as failure:
            raise Failure(f"device: {failure}") from None

    def export(self, uuid, name, device, serial):
        data = self.data(uuid)
        try:
            cables = self.trivet.cables(uuid)
        except Failure as failure:
            raise Failure(f"data: {failure}") from None
        self.problems += Export(self.netbox, name, device, serial, data, cables, self.prune).run()


def secret(path):
    with open(path, encoding="utf-8") as file:
        return file.read(4096).strip()


def main(argv=None, say=print):
    ask = argparse.ArgumentParser(description="Write what Trivet knows of machines into NetBox.")
    ask.add_argument("nodes", nargs="*", metavar="NODE", help="UUIDs or names; without any, all whose inspection finished")
    ask.add_argument("--server", default=os.environ.get("TRIVET_SERVER", "http://127.0.0.1:5050"), help="URLs of the peers, with commas (TRIVET_SERVER)")
    ask.add_argument("--credentials", default=os.environ.get("TRIVET_CREDENTIALS"), help="file with USER:PASSWORD of an administrator (TRIVET_CREDENTIALS)")
    ask.add_argument("--token-file", help="file with a token of Keystone instead")
    ask.add_argument("--netbox", required=True, help="URL of NetBox")
    ask.add_argument("--netbox-token-file", required=True, help="file with a token of NetBox that may write")
    ask.add_argument("--cacert", help="CA certificates (PEM) of both services")
    ask.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    ask.add_argument("--prune", action="store_true", help="delete interfaces and items that Trivet made and the machine has no more")
    o = ask.parse_args(argv)
    try:
        headers = {}
        if o.credentials:
            headers["Authorization"] = "Basic " + base64.b64encode(secret(o.credentials).encode()).decode()
        if o.token_file:
            headers["X-Auth-Token"] = secret(o.token_file)
        trivet = Trivet(o.server.split(","), headers, o.cacert)
        netbox = NetBox(o.netbox, secret(o.netbox_token_file), o.cacert, o.dry_run, say)
        netbox.check()
        every = list(trivet.nodes())
        run = Run(trivet, netbox, o.prune)
        run.problems = [f"{n}: node: no finished inspection of it" for n in o.nodes if all(n not in pair for pair in every)]
        run.write([(uuid, name) for uuid, name in every if not o.nodes or uuid in o.nodes or name in o.nodes], every)
    except (Failure, OSError) as failure:
        say(f"error: {failure}")
        return 1
    for text in run.problems:
        say(f"error: {text}")
    say(f"{netbox.changes} changes{' would be made' if o.dry_run else ''}, {len(run.problems)} errors")
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
