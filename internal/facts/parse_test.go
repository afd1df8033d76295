package facts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/internal/facts"
)

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no fact", "get claims/a\n", "x.txt:1: fact without a name: start it with a comment"},
		{"a name in two lines", "# A.\n\n# B.\nget claims/a\n", ""},
		{"nothing but a name", "# A.\nalone\n", "x.txt:1: fact without a request"},
		{"verb", "# A.\nfetch claims/a\n", `x.txt:2: unknown verb "fetch"`},
		{"resource", "# A.\nget chairs/a\n", `x.txt:2: unknown resource "chairs"`},
		{"word", "# A.\nget claims/a quickly\n", `x.txt:2: unexpected word "quickly"`},
		{"with nothing", "# A.\ncreate claims/a with\n", `x.txt:2: "with" without a value`},
		{"quote", "# A.\nlist claims labelSelector=\"a\n", "x.txt:2: unterminated quote"},
		{"arrow", "# A.\n→ 200\n", "x.txt:2: arrow without a request"},
		{"two arrows", "# A.\nget claims/a\n→ 200\n→ 404\n", "x.txt:4: duplicate arrow"},
		{"code", "# A.\nget claims/a\n→ fine\n", `x.txt:3: invalid code "fine": want a number`},
		{"only", "# A.\nonly grpc\n", `x.txt:2: unknown condition "only grpc" (have "only http")`},
		{"indentation", "# A.\nalone\n    a: b\nget claims/a\n", "x.txt:4: unexpected indentation"},
		{"let twice", "let a\n    b: c\nlet a\n    b: c\n# A.\nget claims/a\n", `x.txt:5: duplicate let "a"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if _, err := facts.Parse("x.txt", test.text); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestWrongFactsFail checks wrong facts.
func TestWrongFactsFail(t *testing.T) {
	const claim = "create configmaps/a\n    metadata: {labels: {k: v}, finalizers: [example.com/f]}\n"
	for _, test := range []struct{ name, text string }{
		{"success", "get configmaps/a\n"},
		{"code", claim + "→ 200\n"},
		{"reason", "get configmaps/a\n→ 404 Conflict\n"},
		{"message", "get configmaps/a\n→ 404 NotFound: configmaps \"b\" not found\n"},
		{"value", claim + "→ 201\n    metadata: {labels: {k: w}}\n"},
		{"none", claim + "→ 201\n    metadata: {labels: ~}\n"},
		{"something", claim + "→ 201\n    metadata: {annotations: …}\n"},
		{"list", claim + "→ 201\n    metadata: {finalizers: []}\n"},
		{"element", claim + "→ 201\n    metadata: {finalizers: [example.com/g]}\n"},
		{"variable", claim + "→ 201\n    metadata: {uid: $x, name: $x}\n"},
		{"anything but", claim + "→ 201\n    metadata: {name: ≠a}\n"},
		{"event", claim + "watch configmaps\n→ 200\n    - DELETED: {metadata: {name: a}}\n"},
		{"event's object", claim + "watch configmaps\n→ 200\n    - ADDED: {metadata: {name: b}}\n"},
		{"end", claim + "watch configmaps timeoutSeconds=1\n→ 200\n    - end\n"},
		{"a missing body", "create configmaps/a with nothing\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			parsed, err := facts.Parse("x.txt", "# A.\n"+test.text)
			if err != nil {
				t.Fatal(err)
			}
			if facts.Check(t.Context(), clients[2].of(t), parsed[0]) == nil {
				t.Errorf("wrong fact passed:\n%s", test.text)
			}
		})
	}
}
