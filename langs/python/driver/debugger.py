"""pdb and IPython's debugger: an interrupt ends the cell, also at their prompt."""
import pdb

from .cells import current


def install():
    """Change the two debuggers' classes."""
    from IPython.core import debugger
    # After `continue` pdb would handle SIGINT itself, and show its prompt again.
    pdb.Pdb.nosigint = property(lambda self: True, lambda self, value: None)
    # The original loop shows the prompt again after a KeyboardInterrupt.
    pdb.Pdb._cmdloop = lambda self: self.cmdloop()
    interaction = debugger.Pdb.interaction

    def interruptible(self, *args, **kwargs):
        before = current().interrupts
        interaction(self, *args, **kwargs)  # prints KeyboardInterrupt and continues
        if current().interrupts > before:
            raise KeyboardInterrupt

    debugger.Pdb.interaction = interruptible
