"""The prescan of a page's first bytes for a declared encoding.

Belongs here: https://html.spec.whatwg.org/#prescan-a-byte-stream-to-determine-its-encoding, step by step, and the XML
declaration that the standard's current text also reads. Does not belong here: what is done with the declaration
(``charset.py``).
"""

import re

from gristmill.extract.labels import name_of

LIMIT = 16_384  # the standard prescans 1,024 bytes, and then lets the parser change its mind at a later meta
_SPACE = b"\t\n\f\r "
_XML = re.compile(rb"""<\?xml[^>]*?\bencoding\s*=\s*(["'])([^"'>]{1,60})\1""")
_CONTENT_CHARSET = re.compile(rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"']+))""",
re.IGNORECASE)


def declared(data: bytes) -> tuple[str, str] | None:
    """(standard's name of the encoding, ``meta`` or ``xml``) that the first bytes declare, or None.

    A declaration that can be read byte by byte is not in UTF-16, whatever it says: then it is UTF-8.
    """
    head = data[:LIMIT]
    lower_head = head.lower()
    if b"charset" not in lower_head and b"encoding" not in lower_head:
        return None
    if head.startswith(b"<?xml"):
        found = _XML.match(head)
        name = name_of(found.group(2).decode("latin-1")) if found else None
        if name is not None:
            return _readable(name), "xml"
    at = 0
    while at < len(head):
        if head.startswith(b"<!--", at):
            end = head.find(b"-->", at + 2)
            if end < 0:
                return None
            at = end + 3
            continue
        lower = head[at : at + 6].lower()
        if lower[:5] == b"<meta" and lower[5:6] and lower[5:6] in b"\t\n\f\r /":
            name, at = _meta(head, at + 6)
            if name is not None:
                return _readable(name), "meta"
        elif re.match(rb"</?[A-Za-z]", head[at : at + 3]):
            at = _tag_end(head, at)
        elif head[at : at + 1] == b"<" and head[at + 1 : at + 2] in (b"!", b"/", b"?"):
            end = head.find(b">", at)
            if end < 0:
                return None
            at = end
        at += 1
    return None


def _tag_end(head: bytes, at: int) -> int:
    """Where a tag that is no meta ends: at the next ``>`` outside its attributes' values."""
    end = head.find(b">", at)
    if end >= 0:
        tag = head[at:end]
        if tag.count(b'"') % 2 == 0 and tag.count(b"'") % 2 == 0:
            return end
    while at < len(head) and head[at] not in _SPACE + b">":
        at += 1
    attribute: tuple[bytes, bytes] | None = (b"", b"")
    while attribute is not None:
        attribute, at = _attribute(head, at)
    return at


def _readable(name: str) -> str:
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def _meta(head: bytes, at: int) -> tuple[str | None, int]:
    """The encoding that a meta element's attributes declare."""
    seen: set[bytes] = set()
    pragma: bool = False
    needed: bool | None = None
    label: str | None = None
    while True:
        attribute, at = _attribute(head, at)
        if attribute is None:
            break
        name, value = attribute
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv":
            pragma = pragma or value.lower() == b"content-type"
        elif name == b"content" and label is None:
            match = _CONTENT_CHARSET.search(value)
            if match:
                label = next(g for g in match.groups() if g is not None).decode("latin-1")
                needed = True
        elif name == b"charset":
            label, needed = value.decode("latin-1"), False
    if needed is None or (needed and not pragma):
        return None, at
    return name_of(label), at


def _attribute(head: bytes, at: int) -> tuple[tuple[bytes, bytes] | None, int]:
    """(name in lower case, value) of the next attribute and the byte after it; None at the end of the tag."""
    size = len(head)
    while at < size and head[at] in _SPACE + b"/":
        at += 1
    if at >= size or head[at] == 0x3E:
        return None, at
    start = at
    while at < size and head[at] not in _SPACE + b"/>" and not (head[at] == 0x3D and at > start):
        at += 1
    name = head[start:at].lower()
    while at < size and head[at] in _SPACE:
        at += 1
    if at >= size or head[at] != 0x3D:
        return (name, b""), at
    at += 1
    while at < size and head[at] in _SPACE:
        at += 1
    if at < size and head[at] in b"\"'":
        end = head.find(head[at : at + 1], at + 1)
        if end < 0:
            return None, size  # the value never ends: nothing that follows can be trusted
        return (name, head[at + 1 : end]), end + 1
    start = at
    while at < size and head[at] not in _SPACE + b">":
        at += 1
    return (name, head[start:at]), at
