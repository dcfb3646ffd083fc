"""The names that code of FastGPT may use, and the call of its function main."""


def prepare(names, arguments):
    """Add the names to the program's: the helpers, three modules, and the variables."""
    import base64
    import hmac
    import json
    import math
    import sys
    import time
    import types
    import urllib.error
    import urllib.parse
    import urllib.request

    room = [1 << 20]  # characters that the log may still have

    def log(*values, **_):
        line = " ".join(map(str, values))
        if len(line) <= room[0]:
            room[0] -= len(line)
            sys.stdout.write(line + "\n")

    def count_token(text):
        return math.ceil(len(str(text)) / 4)

    def str_to_base64(text, prefix=""):
        return prefix + base64.b64encode(text.encode()).decode()

    def create_hmac(algorithm, secret):
        timestamp = str(time.time_ns() // 1_000_000)
        digest = hmac.new(secret.encode(), f"{timestamp}\n{secret}".encode(), algorithm).digest()
        return {"timestamp": timestamp, "sign": urllib.parse.quote(base64.b64encode(digest), safe="")}

    def delay(ms):
        if ms > 10_000:
            raise ValueError("a delay is at most 10000 ms")
        time.sleep(ms / 1000)

    def http_request(url, method="GET", headers=None, body=None, timeout=60):
        headers = dict(headers or {})
        if not url.startswith(("http://", "https://")):
            raise ValueError("the protocol is http or https")
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            if "content-type" not in map(str.lower, headers):
                headers["Content-Type"] = "application/json"
        if isinstance(body, str):
            body = body.encode()
        request = urllib.request.Request(url, body, headers, method=method.upper())
        try:
            answer = urllib.request.urlopen(request, timeout=min(timeout or 60, 60))
        except urllib.error.HTTPError as error:
            answer = error  # it is an answer as well
        with answer:
            data = answer.read((10 << 20) + 1)
            if len(data) > 10 << 20:
                raise ValueError("the answer has over 10 MiB")
            return {
                "status": answer.status, "headers": dict(answer.headers),
                "data": data.decode(errors="replace"),
            }

    helper = types.SimpleNamespace(httpRequest=http_request, http_request=http_request)
    own = {
        "SystemHelper": helper, "system_helper": helper, "http_request": http_request,
        "count_token": count_token, "str_to_base64": str_to_base64, "create_hmac": create_hmac,
        "delay": delay, "print": log, "json": json, "math": math, "time": time,
        "variables": arguments,
    }
    taken = {*names, *own}
    names.update(own)
    names.update((k, v) for k, v in arguments.items() if k not in taken)


def call(main, arguments):
    """Call main with the variables that its parameters name. A single parameter without such a name
    gets all of them."""
    import inspect

    parameters = list(inspect.signature(main).parameters.values())
    if len(parameters) == 1 and parameters[0].kind is not inspect.Parameter.VAR_KEYWORD:
        name = parameters[0].name
        return main(arguments[name] if name in arguments else arguments)
    before, named = [], {}
    for p in parameters:
        if p.kind is inspect.Parameter.VAR_KEYWORD:
            named = arguments
        elif p.name in arguments and p.kind is not inspect.Parameter.VAR_POSITIONAL:
            if p.kind is inspect.Parameter.POSITIONAL_ONLY:
                before.append(arguments[p.name])
            else:
                named = {**named, p.name: arguments[p.name]}
        elif p.default is inspect.Parameter.empty and p.kind is not inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"there is no variable for the parameter {p.name}")
    return main(*before, **named)


default = str
