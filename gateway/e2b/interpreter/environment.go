package interpreter

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The environment of one execution is set by a silent cell before it and restored by one after it.
// Silent cells have no result, no count and no entry in the history, and they define no names.

// The limits of an environment.
const (
	maxVars     = 256
	maxVarBytes = 128 << 10 // names and values together
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkEnvironment checks the variables of a request. Errors: InvalidArgument.
func checkEnvironment(vars map[string]string) error {
	const op = "interpreter.environment"
	if len(vars) > maxVars {
		return fault.Invalid(op, "env_vars", "at most %d variables", maxVars)
	}
	bytes := 0
	for name, value := range vars {
		bytes += len(name) + len(value)
		if !variableName.MatchString(name) {
			return fault.Invalid(op, "env_vars",
				"%q is not a name: a name has letters, digits and underscores", clip(name))
		}
		if strings.ContainsRune(value, 0) {
			return fault.Invalid(op, "env_vars", "the value of %q has a zero byte", clip(name))
		}
	}
	if bytes > maxVarBytes {
		return fault.Invalid(op, "env_vars", "variables have at most %d bytes", maxVarBytes)
	}
	return nil
}

// environment returns the code that sets variables in a kernel and the code that restores them. Both
// are empty for a language without an environment. The code that restores has no effect in a new
// kernel, which replaces one that has died.
func environment(language string, vars map[string]string) (set, restore string) {
	var names []string
	one := map[string]func(name, value string) (set, restore string){
		python: inPython, javascript: inJavaScript, bash: inBash, java: inJava, golang: inGo,
		php: inPHP,
	}[language]
	if one != nil {
		names = slices.Sorted(maps.Keys(vars))
	}
	for _, name := range names {
		begin, end := one(name, vars[name])
		set += begin + "\n"
		restore += end + "\n"
	}
	return set, restore
}

// fill puts a name and a value into a piece of code for NAME and VALUE.
func fill(code, name, value string) string {
	return strings.NewReplacer("NAME", name, "VALUE", value).Replace(code)
}

func inPython(name, value string) (set, restore string) {
	const begin = `(lambda o: (o.__dict__.setdefault("_sandgate_env", {}).setdefault("NAME", ` +
		`o.environ.get("NAME")), o.environ.__setitem__("NAME", VALUE)))(__import__("os"))`
	const end = `(lambda o, s: [o.environ.pop(k, None) if v is None else o.environ.__setitem__(k, v) ` +
		`for k, v in [(k, s.pop(k)) for k in ["NAME"] if k in s]])` +
		`(__import__("os"), __import__("os").__dict__.get("_sandgate_env", {}))`
	return fill(begin, name, strconv.QuoteToASCII(value)), fill(end, name, "")
}

func inJavaScript(name, value string) (set, restore string) {
	const begin = `(() => { const p = process, o = p[Symbol.for("sandgate.env")] ??= {}; ` +
		`o.NAME ??= [p.env.NAME]; p.env.NAME = VALUE; })();`
	const end = `(() => { const p = process, o = p[Symbol.for("sandgate.env")]?.NAME; ` +
		`if (!o) return; delete p[Symbol.for("sandgate.env")].NAME; ` +
		`if (o[0] === undefined) delete p.env.NAME; else p.env.NAME = o[0]; })();`
	return fill(begin, name, string(appendText(nil, value))), fill(end, name, "")
}

func inBash(name, value string) (set, restore string) {
	const begin = `_sandgate_NAME=${NAME+x}${NAME-}; export NAME=VALUE`
	const end = `if [ -n "${_sandgate_NAME+x}" ]; then ` +
		`if [ -n "$_sandgate_NAME" ]; then export NAME="${_sandgate_NAME#x}"; else unset NAME; fi; ` +
		`unset _sandgate_NAME; fi`
	quoted := "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	return fill(begin, name, quoted), fill(end, name, "")
}

// inJava sets a system property: a Java process cannot change its environment.
func inJava(name, value string) (set, restore string) {
	const begin = `{ String o = System.getProperty("NAME"); ` +
		`System.setProperty("sandgate.env.NAME", o == null ? "" : "x" + o); ` +
		`System.setProperty("NAME", VALUE); }`
	const end = `{ String o = System.clearProperty("sandgate.env.NAME"); ` +
		`if (o != null) { if (o.isEmpty()) System.clearProperty("NAME"); ` +
		`else System.setProperty("NAME", o.substring(1)); } }`
	return fill(begin, name, string(appendText(nil, value))), fill(end, name, "")
}

func inGo(name, value string) (set, restore string) {
	const begin = `func() { o, ok := os.LookupEnv("NAME"); if ok { o = "x" + o }; ` +
		`os.Setenv("_SANDGATE_NAME", o); os.Setenv("NAME", VALUE) }()`
	const end = `func() { o, ok := os.LookupEnv("_SANDGATE_NAME"); if !ok { return }; ` +
		`os.Unsetenv("_SANDGATE_NAME"); ` +
		`if o == "" { os.Unsetenv("NAME") } else { os.Setenv("NAME", o[1:]) } }()`
	return fill(begin, name, strconv.QuoteToASCII(value)), fill(end, name, "")
}

func inPHP(name, value string) (set, restore string) {
	const begin = `(function () { $o = getenv("NAME"); ` +
		`putenv("_SANDGATE_NAME=" . ($o === false ? "" : "x" . $o)); $v = VALUE; ` +
		`putenv("NAME=" . $v); $_ENV["NAME"] = $_SERVER["NAME"] = $v; })();`
	const end = `(function () { $o = getenv("_SANDGATE_NAME"); if ($o === false) return; ` +
		`putenv("_SANDGATE_NAME"); if ($o === "") { putenv("NAME"); ` +
		`unset($_ENV["NAME"], $_SERVER["NAME"]); } else { $o = substr($o, 1); ` +
		`putenv("NAME=" . $o); $_ENV["NAME"] = $_SERVER["NAME"] = $o; } })();`
	quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
	return fill(begin, name, quoted), fill(end, name, "")
}
