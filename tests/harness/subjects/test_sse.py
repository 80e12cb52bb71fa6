"""Server-sent events, however they are cut on their way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.subjects.sse import EventReader


def read(*parts: bytes) -> tuple[list[bytes], bool]:
    reader = EventReader()
    return [event for part in parts for event in reader.feed(part)], reader.is_inside


def test_an_event_ends_with_an_empty_line():
    assert read(b"data: a\n\ndata: b\n\n") == ([b"a", b"b"], False)


def test_several_data_lines_are_joined_and_other_fields_are_left_out():
    assert read(b": ping\nevent: x\ndata: a\nid: 7\ndata:b\n\n") == ([b"a\nb"], False)


def test_carriage_returns_before_newlines_belong_to_the_line_end():
    assert read(b"data: a\r\n\r\n") == ([b"a"], False)


def test_empty_lines_without_data_make_no_event():
    assert read(b"\n\n: ping\n\n") == ([], False)


def test_one_space_after_the_colon_is_not_data():
    assert read(b"data:  a\n\ndata\n\n") == ([b" a", b""], False)


def test_a_stream_that_breaks_off_inside_an_event_says_so():
    assert read(b"data: a\n\ndata: b") == ([b"a"], True)
    assert read(b"data: a\n\ndata: b\n") == ([b"a"], True)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.binary(min_size=1).filter(lambda event: not {10, 13} & set(event)), max_size=5), st.data())
def test_the_cuts_between_reads_change_nothing(events, data):
    stream = b"".join(b"data: " + event + b"\n\n" for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*parts) == (events, False)
