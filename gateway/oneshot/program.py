def _sandgate_program(text):
    """Run one program in a module of its own, call its function main if the program has one to call,
    and send the outcome as a display with the type of this package. All names are local, so that the
    program meets none of them."""
    import builtins
    import json
    import linecache
    import resource
    import sys
    import traceback
    import types

    from IPython.display import display

    p = json.loads(text)
    file = p["file"]

    def send(**outcome):
        outcome["memory_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        display({p["type"]: outcome}, raw=True)

    module = types.ModuleType(p["module"])
    module.__file__, module.__builtins__ = file, builtins
    sys.modules[p["module"]] = module
    # Tracebacks show the lines of the program.
    linecache.cache[file] = (len(p["code"]), None, p["code"].splitlines(keepends=True), file)
    names, helpers = vars(module), {}
    exec(compile(p["helpers"], "helpers.py", "exec"), helpers)
    if "prepare" in helpers:
        helpers["prepare"](names, p["arguments"])
    try:
        exec(compile(p["code"], file, "exec"), names)
        if not p["call"]:
            send()
            return
        main = names.get("main")
        if not callable(main):
            raise NameError("the code defines no function main")
        value = helpers["call"](main, p["arguments"])
        send(value=json.dumps(value, allow_nan=False, default=helpers.get("default")))
    except Exception as error:
        # The frames of this function are not the program's.
        at = error.__traceback__
        while at is not None and at.tb_frame.f_code.co_filename != file:
            at = at.tb_next
        lines = "".join(traceback.format_exception(type(error), error, at))
        print(lines, end="", file=sys.stderr)
        send(error={"name": type(error).__name__, "message": str(error), "traceback": lines})
    finally:
        names = None
