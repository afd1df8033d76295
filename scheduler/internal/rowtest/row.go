package rowtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Row is a row of a file.
type Row struct {
	Name string

	pod       *corev1.Pod
	nodes     []*corev1.Node
	pods      []*corev1.Pod // on nodes
	objects   []object      // others, for informers
	args      string
	err       string // of the constructor
	changes   []change
	old, new  any
	of        framework.EventResource // the kind of old and new
	hint      string
	preFilter string
	names     string
	filters   []result
	preScore  string
	scores    []result
}

// A change is a pod that comes to a node or leaves it.
type change struct {
	adds bool
	pod  *corev1.Pod
}

// A result is what a plugin answers about a node.
type result struct{ node, want string }

type object struct{ kind, text string }

// parseArgs parses the arguments of the plugin.
func (r *Row) parseArgs(t *testing.T, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(r.args), into); err != nil {
		t.Fatalf("row %s: args: %v", r.Name, err)
	}
}

// handle returns what the plugin gets from its scheduler: informers whose caches have the row's objects.
func (r *Row) handle(t *testing.T) framework.Handle {
	t.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, o := range r.objects {
		err := add(t, factory, o)
		if err != nil {
			t.Fatalf("row %s: %v", r.Name, err)
		}
	}
	return framework.Handle{Informers: factory}
}

// read returns the rows of a file of the folder testdata.
func read(t *testing.T, file string) []*Row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var rows []*Row
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "row" {
			rows = append(rows, &Row{Name: rest})
			continue
		}
		if len(rows) == 0 {
			t.Fatalf("%s: %q before the first row", file, line)
		}
		rows[len(rows)-1].add(t, word, rest)
	}
	return rows
}

func (r *Row) add(t *testing.T, word, rest string) {
	t.Helper()
	first, second, _ := strings.Cut(rest, " ")
	switch word {
	case "pod":
		r.pod = pod(t, rest, "")
	case "node":
		r.nodes = append(r.nodes, node(t, rest))
	case "on":
		r.pods = append(r.pods, pod(t, rest, types.UID(fmt.Sprint("on-", len(r.pods)))))
	case "args":
		r.args = rest
	case "error":
		r.err = rest
	case "add", "remove":
		r.changes = append(r.changes, change{word == "add", pod(t, rest, r.uidOf(t, rest))})
	case "old":
		r.old = r.changed(t, first, second)
	case "new":
		r.new = r.changed(t, first, second)
	case "hint":
		r.hint = rest
	case "prefilter":
		r.preFilter = rest
	case "names":
		r.names = rest
	case "filter":
		r.filters = append(r.filters, result{first, second})
	case "prescore":
		r.preScore = rest
	case "score":
		r.scores = append(r.scores, result{first, second})
	case "namespace", "service", "replicaset", "statefulset", "replicationcontroller":
		r.objects = append(r.objects, object{word, rest})
	default:
		t.Fatalf("row %s: unknown %q", r.Name, word)
	}
}

// uidOf returns the UID of the pod of the same name that is on the node, so that it can be removed.
func (r *Row) uidOf(t *testing.T, text string) types.UID {
	t.Helper()
	wanted := pod(t, text, "")
	for _, p := range r.pods {
		if p.Name == wanted.Name && p.Namespace == wanted.Namespace {
			return p.UID
		}
	}
	return "added"
}

// changed parses the object of an event.
func (r *Row) changed(t *testing.T, kind, text string) any {
	t.Helper()
	switch kind {
	case "node":
		r.of = framework.Node
		return node(t, text)
	case "pod":
		r.of = framework.Pod
		return pod(t, text, "")
	}
	t.Fatalf("row %s: unknown kind %q", r.Name, kind)
	return nil
}

// pod parses a pod: NAMESPACE/NAME@NODE LABEL=VALUE... {YAML of the rest}.
func pod(t *testing.T, text string, uid types.UID) *corev1.Pod {
	t.Helper()
	p := parse[corev1.Pod](t, text)
	if name, node, ok := strings.Cut(p.Name, "@"); ok {
		p.Name, p.Spec.NodeName = name, node
	}
	if namespace, name, ok := strings.Cut(p.Name, "/"); ok {
		p.Namespace, p.Name = namespace, name
	}
	if p.UID == "" {
		p.UID = uid
	}
	return p
}

// node parses a node. It is ready unless it has other conditions.
func node(t *testing.T, text string) *corev1.Node {
	t.Helper()
	n := parse[corev1.Node](t, text)
	if n.Status.Conditions == nil {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return n
}

// parse parses an object: NAME LABEL=VALUE... {YAML of the rest}.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	head, rest, some := strings.Cut(text, " {")
	words := strings.Fields(head)
	if len(words) == 0 {
		t.Fatalf("no name in %q", text)
	}
	var meta strings.Builder
	fmt.Fprintf(&meta, `metadata: {name: %q`, words[0])
	if len(words) > 1 {
		meta.WriteString(", labels: {")
		for _, label := range words[1:] {
			key, value, ok := strings.Cut(label, "=")
			if !ok {
				t.Fatalf("label %q of %q has no value", label, text)
			}
			fmt.Fprintf(&meta, "%q: %q,", key, value)
		}
		meta.WriteString("}")
	}
	meta.WriteString("}")
	var parsed T
	if some {
		if err := yaml.UnmarshalStrict([]byte("{"+rest), &parsed); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	if err := yaml.UnmarshalStrict([]byte(meta.String()), &parsed); err != nil { // it adds to the rest
		t.Fatalf("%q: %v", text, err)
	}
	return &parsed
}
