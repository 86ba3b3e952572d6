"""Exim, an independent mail server: downloaded as a Debian package, unpacked and run without installing it.

It takes mail for anybody from who has logged in over TLS, and keeps it in its spool, where the tests read it.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default
from pathlib import Path

import pytest

from tablebell.testing import eventually, free_port

# Exim, libraries that a small system may lack, and the package with the user that Exim runs as.
PACKAGES = (
    "exim4-daemon-light",
    "libevent-2.1-7",
    "libgnutls-dane0",
    "libidn12",
    "libnsl2",
    "libnss-wrapper",
    "libtirpc3",
    "libunbound8",
)
NOBODY = 65534
LOGIN = ("tablebell", "s3cret/with:signs")

CONFIGURATION = """
primary_hostname = mx.tablebell.example
spool_directory = {folder}/spool
log_file_path = {folder}/%slog
pid_file_path = {folder}/pid
keep_environment =
queue_only = true
host_lookup =
rfc1413_query_timeout = 0s
local_interfaces = 127.0.0.1
daemon_smtp_ports = {starttls_port} : {implicit_port}
tls_on_connect_ports = {implicit_port}
tls_advertise_hosts = *
tls_certificate = {folder}/cert.pem
tls_privatekey = {folder}/key.pem
smtp_accept_max = 100
smtp_accept_queue_per_connection = 0
acl_smtp_rcpt = check_rcpt
acl_smtp_data = check_data

begin acl
check_rcpt:
  require authenticated = *
  deny    local_parts = gone
          message     = 5.1.1 no such user
  defer   local_parts = greylisted
          message     = 4.2.1 come back later
  accept
check_data:
  accept

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if and {{{{eq {{$auth2}}{{{user}}}}}{{eq {{$auth3}}{{{password}}}}}}}}}
  server_set_id = $auth2
  server_advertise_condition = ${{if def:tls_in_cipher}}
"""


@dataclass(frozen=True, slots=True)
class Received:
    """A mail, with Exim's notes on its transport."""

    mail: EmailMessage
    notes: str


class Exim:
    def __init__(self, folder: Path, starttls_port: int, implicit_port: int) -> None:
        self._folder = folder
        self.starttls_port = starttls_port
        self.implicit_port = implicit_port

    def received(self) -> list[Received]:
        return [self._read(path) for path in sorted((self._folder / "spool" / "input").rglob("*-H"))]

    def log(self) -> str:
        return (self._folder / "mainlog").read_text()

    @staticmethod
    def _read(notes: Path) -> Received:
        """Exim stores a mail as two files: notes and headers, separated by a blank line, and the body."""
        text = notes.read_bytes()
        about, _, headers = text.partition(b"\n\n")
        # Each header follows its length and a flag: "032T To: …".
        lines, rest = [], headers
        while len(rest) > 5 and rest[:3].isdigit():
            length = int(rest[:3])
            flag, header = rest[3:4], rest[5 : 5 + length]
            rest = rest[5 + length :]
            if flag != b"*":
                lines.append(header)
        body = notes.with_name(notes.name.removesuffix("H") + "D").read_bytes().partition(b"\n")[2]
        mail: Message = message_from_bytes(b"".join(lines) + b"\n" + body, policy=default)
        assert isinstance(mail, EmailMessage)
        return Received(mail, about.decode())


def find_exim(cache: Path) -> tuple[Path, dict[str, str]]:
    """The program and its environment; the test is skipped if it is not available."""
    program = cache / "usr/sbin/exim4"
    if not program.exists():
        if not shutil.which("apt-get"):
            pytest.skip("Exim cannot be had without apt-get")
        command = ["apt-get", "download", *PACKAGES]
        fetched = subprocess.run(command, check=False, cwd=cache, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"Exim cannot be fetched: {fetched.stderr.strip()[-200:]}")
        for package in sorted(cache.glob("*.deb")):
            subprocess.run(["dpkg", "-x", package, cache], check=True)
        program.chmod(0o755)  # without the setuid bit, which would disable LD_LIBRARY_PATH
    libraries = sorted({str(path.parent) for path in (cache / "usr/lib").rglob("*.so.*")})
    return program, {"LD_LIBRARY_PATH": ":".join(libraries), "LD_PRELOAD": "libnss_wrapper.so"}


@asynccontextmanager
async def running_exim(cache: Path, folder: Path, certificate: Path, key: Path) -> AsyncIterator[Exim]:
    program, environment = find_exim(cache)
    exim = Exim(folder, free_port(), free_port())
    # Started by root, it switches to its own user; started by another user, it does not switch.
    user, group = (NOBODY, NOBODY) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    people, groups = folder / "passwd", folder / "group"
    people.write_text(f"root:x:0:0::/:/bin/sh\nDebian-exim:x:{user}:{group}::/:/bin/false\n")
    groups.write_text(f"root:x:0:\nDebian-exim:x:{group}:\n")
    environment |= {"NSS_WRAPPER_PASSWD": str(people), "NSS_WRAPPER_GROUP": str(groups)}
    configuration = folder / "exim.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder,
            starttls_port=exim.starttls_port,
            implicit_port=exim.implicit_port,
            user=LOGIN[0],
            password=LOGIN[1],
        )
    )
    configuration.chmod(0o644)
    (folder / "spool").mkdir()
    shutil.copy(certificate, folder / "cert.pem")
    shutil.copy(key, folder / "key.pem")
    for path in (folder, folder / "spool", folder / "cert.pem", folder / "key.pem"):
        os.chown(path, user, group)
    _let_through(folder)
    process = await asyncio.create_subprocess_exec(
        program, "-C", configuration, "-bdf", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        await eventually(lambda: process.returncode is not None or _answers(exim.starttls_port), every=0.05)
        if process.returncode is not None:
            assert process.stderr is not None
            pytest.fail(f"Exim did not start: {(await process.stderr.read()).decode()}")
        yield exim
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def _let_through(folder: Path) -> None:
    """Makes pytest's folders, which only their owner can enter, accessible for Exim."""
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith("pytest-"):
            parent.chmod(0o711)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
