package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// vaultResource is a user of vaults.
var vaultResource = CustomResource{Definition: "testdata/vaults.yaml", Object: "testdata/vault.yaml"}

// draftOf draws the acts of a user, and returns them, in runs of rapid.
func draftOf(t *testing.T, r CustomResource, check func(rt *rapid.T, acts []string)) {
	t.Helper()
	w := r.Workload()
	rapid.Check(t, func(rt *rapid.T) {
		d := &Draft{}
		w(rt, d)
		s := d.scenario()
		read, err := scenario.Parse("drawn", s.String())
		if err != nil || read.String() != s.String() {
			rt.Fatalf("written\n%s\nread %v\n%s", s, err, read)
		}
		if !slices.Equal(s.Definitions, []string{r.Definition}) || len(s.Users) != 1 {
			rt.Fatalf("definitions %q, %d users", s.Definitions, len(s.Users))
		}
		var acts []string
		for _, a := range s.Users[0].Acts {
			acts = append(acts, a.String())
		}
		check(rt, acts)
	})
}

// The acts are those of the files, few enough, and each kind of change occurs. What an immutable field or
// a rule forbids does not.
func TestDrawnActs(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: rapid draws too few acts")
	}
	all := map[string]bool{}
	draftOf(t, vaultResource, func(rt *rapid.T, acts []string) {
		if acts[0] != "apply testdata/vault.yaml" || len(acts) > 1+changesMax {
			rt.Fatalf("acts %q", acts)
		}
		for _, act := range acts[1:] {
			all[act] = true
			if strings.Contains(act, "region") || strings.Contains(act, "requests=8") || !strings.HasPrefix(act, "patch vaults.example.com main ") {
				rt.Fatalf("act %q", act)
			}
		}
	})
	for _, want := range []string{"spec.replicas=2", "spec.mode=sealed", "spec.mode=null", "spec.users=[", "spec.users=null", "spec.labels={", "spec.limits={"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(act string) bool { return strings.Contains(act, " "+want) }) {
			t.Errorf("no act with %s in %d", want, len(all))
		}
	}
}

// Paths restrict changes, and Values replaces what the schema says.
func TestPathsAndValues(t *testing.T) {
	r := vaultResource
	r.Changes, r.User = 2, "alice"
	r.Paths = []string{"spec.labels", "spec.limits.requests"}
	r.Values = map[string]func(*rapid.T) any{"spec.limits.requests": func(rt *rapid.T) any { return rapid.IntRange(6, 7).Draw(rt, "n") }}
	drawn := map[string]bool{}
	draftOf(t, r, func(rt *rapid.T, acts []string) {
		if len(acts) > 3 {
			rt.Fatalf("acts %q", acts)
		}
		for _, act := range acts[1:] {
			drawn[act] = true
			for _, word := range strings.Fields(act)[3:] {
				if !strings.HasPrefix(word, "spec.labels") && !strings.HasPrefix(word, "spec.limits") {
					rt.Fatalf("act %q", act)
				}
			}
			if strings.Contains(act, "requests") && !strings.Contains(act, "6") && !strings.Contains(act, "7") && !strings.Contains(act, "null") {
				rt.Fatalf("act %q", act)
			}
		}
	})
	if len(drawn) < 5 {
		t.Errorf("drawn %v", drawn)
	}
}

// Files and paths that do not fit are errors that name them.
func TestInvalidCustomResources(t *testing.T) {
	for want, change := range map[string]func(r *CustomResource){
		"no-such.yaml: no such file":                             func(r *CustomResource) { r.Definition = "no-such.yaml" },
		"testdata/vaults.yaml: no definition of an object":       func(r *CustomResource) { r.Object = "{apiVersion: v1, kind: Secret, metadata: {name: s}}" },
		"the schema has no path spec.color, or it is immutable":  func(r *CustomResource) { r.Paths = []string{"spec.color"} },
		"the schema has no path spec.region, or it is immutable": func(r *CustomResource) { r.Paths = []string{"spec.region"} },
		"spec.replicas": func(r *CustomResource) {
			r.Object = "{apiVersion: example.com/v1, kind: Vault, metadata: {name: a}, spec: {replicas: 9}}"
		},
	} {
		r := vaultResource
		change(&r)
		p, err := r.prepare("")
		if err == nil {
			_, err = p.tryServe(t.Context(), p.seed)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A merge patch, written as words and read again, turns one object into the other.
func TestAssignmentsOfAPatch(t *testing.T) {
	from := map[string]any{"spec": map[string]any{
		"a": int64(1), "labels": map[string]any{"x.y/z": "1", "old": "2"}, "list": []any{"a"}, "gone": map[string]any{"b": "c"},
	}}
	to := map[string]any{"spec": map[string]any{
		"a": "1", "labels": map[string]any{"x.y/z": "true", "a=b c": "d"}, "list": []any{}, "new": map[string]any{"b": map[string]any{}},
	}}
	got := strings.Join(assignments(mergePatch(from, to), from), "\n")
	const want = `spec.a="1"
spec.gone=null
spec.labels={"a=b c":"d","old":null,"x.y/z":"true"}
spec.list=[]
spec.new={"b":{}}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err := scenario.ParseAct("patch x y " + strings.ReplaceAll(got, "\n", " "))
	testcheck.NoError(t, err)
}

// Values of each type keep to their schema.
func TestValuesOfEachType(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	length := func(n int) *int { return &n }
	pattern := func(p string) *string { return &p }
	for name, c := range map[string]struct {
		schema schema
		valid  func(v any) bool
	}{
		"integer":   {schema{Type: "integer", Minimum: number(-3), Maximum: number(4), ExclusiveMaximum: true}, func(v any) bool { return v.(int64) >= -3 && v.(int64) < 4 }},
		"multiple":  {schema{Type: "integer", Minimum: number(1), MultipleOf: number(5)}, func(v any) bool { return v.(int64) >= 1 && v.(int64)%5 == 0 }},
		"maximum":   {schema{Type: "integer", Maximum: number(-2)}, func(v any) bool { return v.(int64) <= -2 }},
		"large":     {schema{Type: "integer", Format: "int32", Minimum: number(0), Maximum: number(1e12)}, func(v any) bool { return v.(int64) <= 1<<31-1 }},
		"string":    {schema{Type: "string", MinLength: length(3), MaxLength: length(5)}, func(v any) bool { return len(v.(string)) >= 3 && len(v.(string)) <= 5 }},
		"pattern":   {schema{Type: "string", Pattern: pattern("^x[0-9]{2}$")}, func(v any) bool { return len(v.(string)) == 3 && v.(string)[0] == 'x' }},
		"both":      {schema{Type: "string", AllOf: []*schema{{Enum: []any{"a", "b"}}, {Enum: []any{"b", "c"}}}}, func(v any) bool { return v == "b" }},
		"quantity":  {schema{IntOrString: true, Pattern: pattern(quantityPattern)}, func(v any) bool { return slices.Contains(quantities, v.(string)) }},
		"set":       {schema{Type: "array", ListType: "set", MinItems: length(2), Items: &schema{Type: "boolean"}}, func(v any) bool { return len(v.([]any)) == 2 }},
		"least":     {schema{Type: "object", MinProperties: length(2), Values: &schema{Type: "string"}}, func(v any) bool { return len(v.(map[string]any)) >= 2 }},
		"embedded":  {schema{Type: "object", Embedded: true, Preserve: true}, func(v any) bool { return v.(map[string]any)["kind"] == "ConfigMap" }},
		"fractions": {schema{Type: "number", Minimum: number(0), Maximum: number(1), ExclusiveMinimum: true}, func(v any) bool { return fmt.Sprint(v) != "0" }},
	} {
		seen := map[string]bool{}
		for i := range 60 {
			v := rapid.Custom(func(rt *rapid.T) any { return values{rt: rt}.draw(&c.schema, "spec.x", 1) }).Example(i)
			if seen[jsonText(v)] = true; !c.valid(v) {
				t.Errorf("%s: drawn %v", name, v)
			}
		}
		if fixed := name == "both" || name == "set"; !fixed && len(seen) < 2 {
			t.Errorf("%s: always %v", name, seen)
		}
	}
}
