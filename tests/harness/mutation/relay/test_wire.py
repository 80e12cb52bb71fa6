"""Messages as bytes: framing of bodies, heads, and peers over a pair of sockets."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mutation.relay.wire import (
    CLOSING_CHUNK,
    Body,
    Chunked,
    ClientLeftError,
    Head,
    Peer,
    Sized,
    UntilClose,
    WireError,
    body_of_answer,
    body_of_request,
    chunk,
    next_to_act,
)

NEXT = b"HTTP/1.1 200 OK\r\n"


def fed(body: Body, parts: list[bytes]) -> tuple[bytes, bytes]:
    """Return (content, what is left for the next message) of a body that is fed part by part."""
    content, rest = b"", b""
    for part in parts:
        if body.is_done:
            rest += part
            continue
        more, rest = body.take(part)
        content += more
    return content, rest


def split_at(message: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({0, len(message), *(place % (len(message) + 1) for place in places)})
    return [message[begin:end] for begin, end in itertools.pairwise(borders)]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=60, deadline=None)
def test_chunks_give_their_content_and_leave_the_next_message_wherever_the_parts_are_cut(
    chunks: list[bytes], places: list[int]
) -> None:
    body = Chunked()
    message = b"".join(map(chunk, chunks)) + CLOSING_CHUNK + NEXT
    assert fed(body, split_at(message, places)) == (b"".join(chunks), NEXT)
    assert body.is_done


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_sized_body_ends_at_its_length_wherever_the_parts_are_cut(content: bytes, places: list[int]) -> None:
    body = Sized(len(content))
    assert fed(body, split_at(content + NEXT, places)) == (content, NEXT)
    assert body.is_done


def test_a_trailer_and_an_extension_of_a_chunk_are_no_content() -> None:
    assert fed(Chunked(), [b"3;x=y\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n"]) == (b"abc", b"")


def test_a_broken_chunk_length_and_an_end_inside_a_body_are_errors() -> None:
    with pytest.raises(WireError, match="no chunk length: b'zz'"):
        Chunked().take(b"zz\r\n")
    with pytest.raises(WireError, match="ended inside a body"):
        Sized(3).end()
    over = UntilClose()
    over.end()
    assert over.is_done


def head(*lines: str) -> Head:
    return Head("\r\n".join((*lines, "", "")).encode())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (head("HTTP/1.1 200 OK", "Content-Length: 3"), Sized),
        (head("HTTP/1.1 200 OK", "transfer-encoding: Chunked"), Chunked),
        (head("HTTP/1.1 200 OK"), UntilClose),
        (head("HTTP/1.1 204 No Content"), Sized),
        (head("HTTP/1.1 100 Continue"), Sized),
    ],
)
def test_an_answers_framing_follows_its_head(answer: Head, kind: type[Body]) -> None:
    assert type(body_of_answer(answer)) is kind


def test_a_request_without_a_length_has_no_body() -> None:
    assert body_of_request(head("GET /health HTTP/1.1", "Host: x")).is_done
    assert not body_of_request(head("POST / HTTP/1.1", "Content-Length: 2")).is_done


def test_another_length_and_status_take_the_place_of_what_framed_the_body_and_nothing_else() -> None:
    before = head("HTTP/1.1 400 Bad Request", "X-One: 1", "Transfer-Encoding: chunked", "Content-Type: application/json")
    assert before.with_length(7, 200).raw == (
        b"HTTP/1.1 200 Changed\r\nX-One: 1\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
    )
    assert before.with_length(7, 400).first == ["HTTP/1.1", "400", "Bad Request"]


@pytest.fixture
def pair() -> Iterator[tuple[Peer, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Peer(ours), theirs


def test_a_peer_reads_a_head_the_parts_of_its_body_and_the_next_head(pair: tuple[Peer, socket.socket]) -> None:
    peer, other = pair
    other.sendall(b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n")
    first = peer.head()
    assert first is not None
    assert list(peer.parts(body_of_request(first))) == [(b"abc", b"abc")]
    assert peer.has_more
    second = peer.head()
    assert second is not None
    assert second.first[1] == "/b"
    other.close()
    assert peer.head() is None


def test_an_end_inside_a_head_is_an_error(pair: tuple[Peer, socket.socket]) -> None:
    peer, other = pair
    other.sendall(b"HTTP/1.1 200")
    other.close()
    with pytest.raises(WireError, match="inside a head"):
        peer.head()


def test_a_client_that_closes_ends_the_wait_for_its_answer(pair: tuple[Peer, socket.socket]) -> None:
    peer, _ = pair
    near, far = socket.socketpair()
    with near, far:
        far.close()
        with pytest.raises(ClientLeftError):
            peer.head(Peer(near))


def test_what_the_subject_sent_before_its_client_closed_is_still_read(pair: tuple[Peer, socket.socket]) -> None:
    peer, other = pair
    near, far = socket.socketpair()
    with near, far:
        other.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        far.close()
        found = peer.head(Peer(near))
        assert found is not None
        assert found.status == 200


def test_between_two_requests_the_side_that_acts_first_is_told(pair: tuple[Peer, socket.socket]) -> None:
    client, far_client = pair
    near, far = socket.socketpair()
    with near, far:
        subject = Peer(near)
        far_client.sendall(b"G")
        assert next_to_act(client, subject)
        assert client.socket.recv(1) == b"G"
        far.close()
        assert not next_to_act(client, subject)
    assert next_to_act(client, None)
