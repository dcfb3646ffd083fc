"""Prints the text of a PDF or of a file of an office program."""

import re
import sys
import zipfile
from xml.etree import ElementTree


def pdf(path):
    from pypdf import PdfReader

    for number, page in enumerate(PdfReader(path).pages, 1):
        yield f"[page {number}]\n{page.extract_text().strip()}"


def docx(path):
    from docx import Document

    document = Document(path)
    for part in document.element.body:
        if part.tag.endswith("}p"):
            yield "".join(t.text or "" for t in part.iter() if t.tag.endswith("}t"))
        for row in (r for r in part.iter() if r.tag.endswith("}tr")):
            cells = [c for c in row if c.tag.endswith("}tc")]
            yield "\t".join(
                "".join(t.text or "" for t in c.iter() if t.tag.endswith("}t")) for c in cells
            )


def xlsx(path):
    from openpyxl import load_workbook

    for sheet in load_workbook(path, read_only=True, data_only=True):
        yield f"[sheet {sheet.title}]"
        for row in sheet.iter_rows(values_only=True):
            yield "\t".join("" if value is None else str(value) for value in row)


def pptx(path):
    with zipfile.ZipFile(path) as archive:
        names = [re.fullmatch(r"ppt/slides/slide(\d+)\.xml", name) for name in archive.namelist()]
        for number, name in sorted((int(m[1]), m[0]) for m in names if m):
            yield f"[slide {number}]"
            for part in ElementTree.fromstring(archive.read(name)).iter():
                if part.tag.endswith("}p"):
                    yield "".join(t.text or "" for t in part.iter() if t.tag.endswith("}t"))


kinds = {"pdf": pdf, "docx": docx, "xlsx": xlsx, "pptx": pptx}
try:
    for text in kinds[sys.argv[1]](sys.argv[2]):
        print(text)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
