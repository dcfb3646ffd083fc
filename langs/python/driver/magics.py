"""%%bash and similar magics, %%sql, %less."""
from pathlib import Path
from subprocess import CalledProcessError

from IPython.core import magic_arguments, page
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magics.script import ScriptMagics, script_args
from IPython.utils.process import arg_split

from . import children


@magics_class
class Scripts(ScriptMagics):
    """IPython's script magics without its thread and its loop: an interrupt is a KeyboardInterrupt,
    and output streams."""

    @magic_arguments.magic_arguments()
    @script_args
    @cell_magic("script")
    def shebang(self, line, cell):
        """Run the cell with a program: %%script [--out NAME] [--err NAME] [--bg] [--no-raise-error]
        program …"""
        args, argv = self.shebang.parser.parse_known_args(arg_split(line))
        if args.bg:
            return ScriptMagics.shebang(self, line, cell)
        text = (cell if cell.endswith("\n") else cell + "\n").encode("utf-8", "replace")
        kept = {name: [] for name in (args.out, args.err) if name}
        try:
            code = children.script(
                argv, text,
                kept[args.out].append if args.out else None,
                kept[args.err].append if args.err else None)
        except FileNotFoundError:
            print(f"Couldn't find program: {argv[0]!r}")
            return None
        finally:
            for name, parts in kept.items():
                self.shell.user_ns[name] = b"".join(parts).decode("utf-8", "replace")
        self.shell.user_ns["_exit_code"] = code
        if args.raise_error and code:
            raise CalledProcessError(code, text)
        return None


@magics_class
class Queries(Magics):
    """%%sql."""

    _database = None

    @cell_magic
    def sql(self, line, cell):
        """Run SQL over DataFrames and return the rows of the last query as a DataFrame:
        %%sql [NAME <<] [FILE]. NAME stores them instead. FILE is a database of SQLite. :name is the
        value of a variable."""
        if self._database is None:
            from .sql import Database  # it is not needed before
            self._database = Database()
        name, rows = self._database.run(line, cell, self.shell.user_ns)
        if name is None:
            return rows
        self.shell.user_ns[name] = rows
        return None


@magics_class
class Pages(Magics):
    """%less and %more."""

    @line_magic
    def less(self, line):
        """Show a file: %less FILE"""
        try:
            text = Path(line.strip().strip("'\"")).expanduser().read_text("utf-8", "replace")
        except OSError as error:
            raise UsageError(str(error)) from None
        page.page(text)

    more = line_magic("more")(less)
