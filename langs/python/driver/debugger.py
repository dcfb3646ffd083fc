"""pdb and IPython's debugger: an interrupt ends the cell, at their prompt too."""
import pdb

from .cells import current


def install():
    """Change the two debuggers' classes."""
    from IPython.core import debugger
    # After `continue` pdb would take SIGINT for itself, and ask again.
    pdb.Pdb.nosigint = property(lambda self: True, lambda self, value: None)
    # Theirs goes on asking after a KeyboardInterrupt.
    pdb.Pdb._cmdloop = lambda self: self.cmdloop()
    interaction = debugger.Pdb.interaction

    def interruptible(self, *args, **kwargs):
        before = current().interrupts
        interaction(self, *args, **kwargs)  # prints KeyboardInterrupt, and goes on
        if current().interrupts > before:
            raise KeyboardInterrupt

    debugger.Pdb.interaction = interruptible
