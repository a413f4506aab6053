"""Images and documents for Claude (contract, chat 3.2 and 11.2)."""

import pytest

from extproc.errors import UnprocessableRequest
from tests.unit.translate.chat.anthropic.attempts import turns


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def file(**members):
    return {"type": "file", "file": members}


def block(part):
    return turns({"role": "user", "content": [part]})[0]["content"][0]


def base64(data, media_type):
    return {"data": data, "media_type": media_type, "type": "base64"}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (image("data:image/png;base64,AAEC"), {"source": base64("AAEC", "image/png"), "type": "image"}),
        (image("data:image/jpeg;base64,AAEC"), {"source": base64("AAEC", "image/jpeg"), "type": "image"}),
        (image("data:image/jpg;base64,AAEC"), {"source": base64("AAEC", "image/jpeg"), "type": "image"}),
        (image("data:image/gif;base64,AAEC"), {"source": base64("AAEC", "image/gif"), "type": "image"}),
        (image("DATA:image/WEBP;charset=x;base64,AAEC"), {"source": base64("AAEC", "image/webp"), "type": "image"}),
        (image("data:image/png,AAEC"), {"source": base64("AAEC", "image/png"), "type": "image"}),
        (image("data:image/png,%00%01%02"), {"source": base64("AAEC", "image/png"), "type": "image"}),
        (
            image("data:application/pdf;base64,JVBERi0="),
            {"source": base64("JVBERi0=", "application/pdf"), "type": "document"},
        ),
        (image("https://a/b.png"), {"source": {"url": "https://a/b.png", "type": "url"}, "type": "image"}),
        (image("http://a/b?c=.pdf2"), {"source": {"url": "http://a/b?c=.pdf2", "type": "url"}, "type": "image"}),
        (image("https://a/b.PDF"), {"source": {"url": "https://a/b.PDF", "type": "url"}, "type": "document"}),
        (image("https://a/b.pdf?s=1"), {"source": {"url": "https://a/b.pdf?s=1", "type": "url"}, "type": "document"}),
        (image("https://a/b?f=x.pdf"), {"source": {"url": "https://a/b?f=x.pdf", "type": "url"}, "type": "document"}),
        (
            file(file_data="data:application/pdf;base64,JVBERi0=", filename="a.pdf"),
            {"source": base64("JVBERi0=", "application/pdf"), "title": "a.pdf", "type": "document"},
        ),
        (file(file_data="JVBERi0="), {"source": base64("JVBERi0=", "application/pdf"), "type": "document"}),
        (
            file(file_data="AAEC", filename="A.PDF"),
            {"source": base64("AAEC", "application/pdf"), "title": "A.PDF", "type": "document"},
        ),
        (file(file_data="data:image/png;base64,AAEC"), {"source": base64("AAEC", "image/png"), "type": "image"}),
        (
            file(file_data="data:text/plain;base64,aMOk", filename=" "),
            {"source": {"data": "hä", "media_type": "text/plain", "type": "text"}, "type": "document"},
        ),
    ],
)
def test_what_claude_can_see(part, expected):
    assert block(part) == expected


@pytest.mark.parametrize(
    ("part", "member"),
    [
        (image(""), "image_url.url"),
        (image("gs://bucket/a.png"), "image_url.url"),
        (image("/a.png"), "image_url.url"),
        (image("data:image/png;base64"), "image_url.url"),
        (image("data:image/png;base64,"), "image_url.url"),
        (image("data:image/png;base64,A"), "image_url.url"),
        (image("data:image/png;base64,ä"), "image_url.url"),
        (image("data:image/bmp;base64,AAEC"), "image_url.url: unsupported media type image/bmp"),
        (image("data:;base64,AAEC"), "image_url.url: unsupported media type"),
        (file(file_id="file-1"), "file.file_id"),
        (file(), "file.file_data"),
        (file(file_data=""), "file.file_data"),
        (file(file_data="", filename="a.pdf"), "file.file_data"),
        (file(file_data="AAEC", filename="a.docx"), "file.file_data"),
        (file(file_data="data:application/msword;base64,AAEC"), "file.file_data"),
    ],
)
def test_what_claude_cannot_see_is_refused(part, member):
    with pytest.raises(UnprocessableRequest) as caught:
        block(part)
    assert f"messages[0].content[0].{member}" in str(caught.value)
