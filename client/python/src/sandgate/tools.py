"""Functions of a sandbox for agent frameworks.

Frameworks describe a function to a model by its name, its types and its docstring:

>>> from sandgate import Sandbox
>>> from sandgate.tools import functions
>>> with Sandbox() as s:
...     print(functions(s)[0]("6 * 7"))
42
"""

from __future__ import annotations

from typing import Callable, Iterable

from ._sync.sandbox import Sandbox
from .results import CreatedFile

__all__ = ["functions"]


def functions(
    sandbox: Sandbox, *, timeout: float = 60, max_text: int = 20_000
) -> list[Callable[..., str]]:
    """Return the functions run_code, run_command, read_file and write_file of a sandbox.

    Failed code, a failed command and a timeout are texts, which a model can correct.

    Args:
        sandbox: where code and commands run.
        timeout: seconds that code or a command may take.
        max_text: characters of a result. A longer one is cut in the middle.
    """

    def run_code(code: str, language: str = "python") -> str:
        """Run code and return its output, the last value, and errors.

        Variables, imports and files stay for later calls.

        Args:
            code: The code.
            language: python, javascript, bash or another language. Each has its own variables.
        """
        r = sandbox.run(code, language=language, timeout=timeout)
        failure = r.error.traceback if r.error else "" if r.ok else f"[{r.status}]"
        return _text([r.stdout, r.stderr, r.text or "", failure, *_listed(r.files)], max_text)

    def run_command(command: str) -> str:
        """Run a command line in bash and return its output and its exit code.

        Files stay for later calls.

        Args:
            command: The command line.
        """
        r = sandbox.exec(command, timeout=timeout, check=False)
        end = "" if r.ok else f"[{r.status}, exit code {r.exit_code}]"
        return _text([r.stdout, r.stderr, end, *_listed(r.files)], max_text)

    def read_file(path: str) -> str:
        """Read a text file.

        Args:
            path: Path, relative to the home folder or absolute.
        """
        return _text([sandbox.files.read_text(path)], max_text)

    def write_file(path: str, content: str) -> str:
        """Create a text file, or replace its content.

        Args:
            path: Path, relative to the home folder or absolute.
            content: The content.
        """
        sandbox.files.write(path, content)
        return f"{path} is written"

    return [run_code, run_command, read_file, write_file]


def _listed(files: Iterable[CreatedFile]) -> list[str]:
    return [f"[{f.change} file {f.path}]" for f in files]


def _text(parts: Iterable[str], most: int) -> str:
    text = "\n".join(part.rstrip("\n") for part in parts if part) or "[no output]"
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
