package e2e

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestValuesBetweenKernels stores tables and values in a kernel of each language, and gets them in
// the kernels of the others.
func TestValuesBetweenKernels(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s := openWith(t, server, protocol.SessionCreate{})
	run := func(language, code, want string) {
		t.Helper()
		out, err := command(ctx, t, server, "run", "--session", s.id, "--kernel", "-l", language,
			"-c", code)
		if got := strings.TrimSpace(out); err != nil || got != want {
			t.Errorf("%s: %s\n%v\n%s\nwant\n%s", language, code, err, got, want)
		}
	}
	// A DataFrame has numbers, texts, times and gaps. An index with a name is a column.
	run("python", `import pandas as pd
df = pd.DataFrame({"n": [1, 2, 3], "x": [0.1, None, float("inf")], "t": ["a", "é,\"", None],
                   "d": pd.to_datetime(["2026-01-02", None, "2026-01-04"])})
sandgate.put("df", df[df.n < 3])
sandgate.put("total", df.groupby("t")["n"].sum())
sandgate.put("inf", df)
sandgate.put("options", {"a": [1, None, True], "b": "text"})
print(sandgate.names())`, "['df', 'inf', 'options', 'total']")
	run("sql", ".get df\n.mode csv\nSELECT * FROM df; SELECT typeof(n), typeof(x), typeof(d) FROM df",
		"2 rows in df\nn,x,t,d\n1,0.1,a,2026-01-02T00:00:00\n2,,\"é,\"\"\",\n"+
			"typeof(n),typeof(x),typeof(d)\ninteger,real,text\ninteger,null,null")
	run("sql", ".get total sums\nSELECT * FROM sums;", "2 rows in sums\nt,n\na,1\n\"é,\"\"\",2")
	run("sql", ".put doubled SELECT n, n * 2 AS twice, x'00ff' AS b FROM df", "2 rows stored")
	run("python", `print(sandgate.get("doubled").to_csv(index=False)); print(sandgate.get("options"))`,
		"n,twice,b\n1,2,AP8=\n2,4,AP8=\n\n{'a': [1, None, True], 'b': 'text'}")
	run("javascript", `console.log(JSON.stringify(sandgate.get('doubled')), sandgate.get('options').a)
sandgate.put('rows', sandgate.get('doubled').map((r) => ({ ...r, sum: r.n + r.twice })))
sandgate.put('list', [1n, new Set([2]), [3]])`,
		`[{"n":1,"twice":2,"b":"AP8="},{"n":2,"twice":4,"b":"AP8="}] [ 1, null, true ]`)
	run("php", `foreach (Sandgate::get('rows') as $row) echo "$row[n] $row[sum]\n";
Sandgate::put('squares', array_map(fn ($r) => ['n' => $r['n'], 'square' => $r['n'] ** 2], Sandgate::get('rows')));
echo json_encode(Sandgate::get('list'));`, "1 3\n2 6\n[1,[2],[3]]")
	run("bash", `sandgate get squares | tr , ' '
printf 'name,code\nx,007\ny,8\n' >t.csv
sandgate put codes t.csv
sandgate get df | sandgate put --csv copy
sandgate put word <<<"two words"
sandgate get word; sandgate get options; sandgate names | wc -l`,
		"n square\n1 1\n2 4\ntwo words\n{\"a\": [1, null, true], \"b\": \"text\"}\n11")
	run("python", `print(sandgate.get("codes").values.tolist(), sandgate.get("word"))
print(sandgate.get("copy").equals(sandgate.get("df")), type(sandgate.get("squares")).__name__)`,
		"[['x', '007'], ['y', '8']] two words\nTrue DataFrame")
	run("go", `type Row struct{ N int; Twice int; B string }
var rows []Row
fmt.Println(sandgate.Get("doubled", &rows), rows)
type Pair struct { Name string; Half float64; No *int }
fmt.Println(sandgate.Put("pairs", []Pair{{"a", 0.5, nil}, {"b", 1, nil}}), len(sandgate.Names()))
fmt.Println(sandgate.Get("none", &rows))`, "<nil> [{1 2 AP8=} {2 4 AP8=}]\n<nil> 12\n"+
		"no kernel has stored none; there are: codes, copy, df, doubled, inf, list, options, pairs, "+
		"rows, squares, total, word")
	run("java", `List<Map<String, Object>> pairs = Sandgate.get("pairs");
System.out.println(pairs.get(0) + " " + Sandgate.names().size());
record Point(int x, double y) {}
Sandgate.put("points", List.of(new Point(1, 1.5), new Point(2, 2.5)));
Sandgate.put("nested", Map.of("a", List.of(1, 2)));`, "{Name=a, Half=0.5, No=null} 12")
	run("sql", ".get points\n.mode csv\nSELECT sum(x), sum(y) FROM points; ",
		"2 rows in points\nsum(x),sum(y)\n3,4.0")
	run("python", `print(sandgate.get("points").columns.tolist(), sandgate.get("nested"),
      sandgate.get("pairs").Name.tolist())`, "['x', 'y'] {'a': [1, 2]} ['a', 'b']")
	// Failures name the value, and leave what was there.
	run("python", `for f in (
    lambda: sandgate.get("none"), lambda: sandgate.put("../x", 1),
    lambda: sandgate.put("df", "x" * (64 << 20)),
):
    try: f()
    except Exception as e: print(type(e).__name__, str(e)[:24])
print(len(sandgate.get("df")))`,
		"KeyError 'no kernel has stored no\nValueError '../x' is not a name of \n"+
			"ValueError df has 67108877 bytes as\n2")
	run("bash", `sandgate get none 2>&1; sandgate put --json df <<<"{" 2>&1; sandgate get df | wc -l`,
		"sandgate: no kernel has stored none\nsandgate: it is not valid JSON\n3")
}
