"""The Python kernel of Sandgate: IPython's shell with the driver protocol."""
