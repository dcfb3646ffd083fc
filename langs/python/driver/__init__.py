"""The Python kernel of Sandgate: IPython's shell behind the driver protocol."""
