"""Which names mean this machine. Resolves nothing."""

from __future__ import annotations

import ipaddress
import re


def is_loopback(name: str) -> bool:
    """Whether a name or address means this machine whatever the network: localhost or a loopback address."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def header_names_loopback(host: str) -> bool:
    """Whether a Host header, with or without a port, names this machine."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?", host)
    return match is not None and is_loopback(match[1] or match[2])
