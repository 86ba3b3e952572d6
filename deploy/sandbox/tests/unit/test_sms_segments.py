import pytest

from tablebell_sandbox.sms import segments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("è" * 160, 1),
        ("a" * 306, 2),
        ("a" * 307, 3),
        ("€" * 80, 1),
        ("€" * 81, 2),
        ("ő" * 70, 1),
        ("ő" * 71, 2),
        ("🍕" * 35, 1),
        ("🍕" * 36, 2),
    ],
)
def test_a_text_takes_as_many_segments_as_its_alphabet_needs(text: str, expected: int) -> None:
    assert segments(text) == expected
