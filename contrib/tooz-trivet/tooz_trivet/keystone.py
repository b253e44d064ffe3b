"""Tokens of Keystone, for peers whose API asks for them."""

import configparser
import json
import threading

from tooz import coordination
import urllib3

_LIMIT = 5.0  # seconds for Keystone to answer
_MAX_ANSWER = 1 << 20  # bytes; a catalogue is long
_NEEDED = ("auth_url", "username", "password", "project_name")


class Keystone:
    """Logs in with a password from a section of a file, as [ironic] of a service's own.

    A token is kept until a peer refuses it. Any thread may ask.
    """

    def __init__(self, path, section, ca_cert):
        self._path, self._section = path, section
        self._http = urllib3.PoolManager(retries=False, cert_reqs="CERT_REQUIRED", ca_certs=ca_cert)
        self._lock = threading.Lock()
        self._token = None

    def headers(self):
        with self._lock:
            if self._token is None:
                self._token = self._log_in(self._read())
            return {"X-Auth-Token": self._token}

    def refused(self, headers):
        """A peer refused these headers: the next ones have another token."""
        with self._lock:
            if headers.get("X-Auth-Token") == self._token:
                self._token = None
        return True

    def _read(self):
        file = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            with open(self._path, encoding="utf-8") as text:
                file.read_file(text)
        except (OSError, configparser.Error) as e:
            raise coordination.ToozError("keystone: read %s: %s" % (self._path, e)) from None
        options = dict(file[self._section]) if file.has_section(self._section) else {}
        missing = [name for name in _NEEDED if not options.get(name)]
        if missing:
            raise coordination.ToozError("keystone: section [%s] of %s has no %s" % (self._section, self._path, ", ".join(missing)))
        return options

    def _log_in(self, o):
        user = {"name": o["username"], "password": o["password"], "domain": {"name": o.get("user_domain_name", "Default")}}
        project = {"name": o["project_name"], "domain": {"name": o.get("project_domain_name", "Default")}}
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": project}}}
        url = o["auth_url"].rstrip("/")
        url += ("" if url.endswith("/v3") else "/v3") + "/auth/tokens"
        try:
            reply = self._http.request(
                "POST", url, body=json.dumps(body).encode("utf-8"), headers={"Content-Type": "application/json"}, redirect=False,
                preload_content=False, timeout=urllib3.Timeout(total=_LIMIT))
            reply.read(_MAX_ANSWER)
            reply.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise coordination.ToozConnectionError("keystone: log in at %s: %s" % (url, str(e).rsplit(": ", 1)[-1])) from e
        token = reply.headers.get("X-Subject-Token")
        if reply.status != 201 or not token:
            raise coordination.ToozError("keystone: log in at %s as %s: status %d" % (url, o["username"], reply.status))
        return token
