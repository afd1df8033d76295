package trace

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWritesOfAnyKind(t *testing.T) {
	database := func(version string, content map[string]any) *unstructured.Unstructured {
		out := map[string]any{"apiVersion": "example.com/v1", "kind": "Database", "metadata": map[string]any{
			"name": "db", "resourceVersion": version, "labels": map[string]any{"v": content["v"]},
		}}
		for key, value := range content {
			if key != "v" {
				out[key] = value
			}
		}
		return &unstructured.Unstructured{Object: out}
	}
	of := func(storage string, replicas ...any) map[string]any {
		return map[string]any{"spec": map[string]any{"storage": storage, "replicas": replicas}}
	}
	long := strings.Repeat("x", 50)
	for _, c := range []struct {
		record Record
		want   string
	}{
		{
			Record{
				Action:  Action{KindAPI, "update", "databases.example.com/default/db"},
				Outcome: Outcome{Before: database("1", of("1Gi", "a", "b")), After: database("2", of("2Gi", "a"))},
			},
			"changes database default/db: spec.replicas[1] removed, spec.storage 1Gi → 2Gi",
		},
		{
			Record{
				Action: Action{KindAPI, "update", "databases.example.com/default/db"},
				Outcome: Outcome{
					Before: database("1", nil),
					After:  database("2", map[string]any{"v": "1", "a": long, "b": true, "c": 3.5, "d": "e", "f": "g"}),
				},
			},
			"changes database default/db: a=" + long[:40] + "…, b=true, c=3.5, d=e, and 2 more fields",
		},
		{
			Record{
				Action:  Action{KindAPI, "update", "databases.example.com/default/db"},
				Outcome: Outcome{Before: database("1", of("1Gi")), After: database("2", of("1Gi"))},
			},
			"writes database default/db without a relevant change",
		},
		{
			Record{
				Action:  Action{KindAPI, "create", "secrets/default/s-*"},
				Outcome: Outcome{After: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s-1x2y3"}}},
			},
			"creates secret default/s-1x2y3",
		},
		{
			Record{
				Action: Action{KindAPI, "update", "secrets/default/s"},
				Outcome: Outcome{
					Before: &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("1"), "c": []byte("1")}},
					After: &corev1.Secret{
						ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "1"}},
						Data:       map[string][]byte{"b": []byte("2"), "c": []byte("1"), "d": []byte("2")}, Type: "T",
					},
				},
			},
			"changes secret default/s: data.a removed, data.b changed, data.d set, metadata.annotations.kubectl.kubernetes.io/last-applied-configuration set, type=T",
		},
	} {
		if got := DescribeAny(c.record); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A story has the type of a condition, not its message and times.
func TestConditionsAreToldByType(t *testing.T) {
	database := func(status, reason, message, at string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Database", "status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": at},
		}}}}
	}
	before := database("False", "Progressing", "0 of 2", "2026-01-01T00:00:00Z")
	for _, c := range []struct {
		after *unstructured.Unstructured
		want  string
	}{
		{database("True", "AllReplicasReady", "2 of 2", "2026-01-02T00:00:00Z"), "status.conditions[Ready] False (Progressing) → True (AllReplicasReady)"},
		{database("False", "Progressing", "1 of 2", "2026-01-02T00:00:00Z"), ""},
		{&unstructured.Unstructured{Object: map[string]any{"kind": "Database"}}, "status.conditions[Ready] removed"},
	} {
		if got := strings.Join(fieldChanges(before, c.after), ", "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A write that changes nothing, and the conflict of a user, who need not retry.
func TestDescribeWritesWithoutEffect(t *testing.T) {
	action := Action{Kind: KindAPI, Verb: "update", Object: "widgets/default/web"}
	conflict := Outcome{Err: apierrors.NewConflict(schema.GroupResource{Resource: "widgets"}, "web", errors.New("modified"))}
	for want, r := range map[string]Record{
		"writes widget default/web without a relevant change":                 {Task: "operator/widgets", Action: action},
		"gets a conflict for its update of widget default/web and will retry": {Task: "operator/widgets", Action: action, Outcome: conflict},
		"gets a conflict for its update of widget default/web":                {Task: "alice", Action: action, Outcome: conflict},
	} {
		if got := DescribeAny(r); got != want {
			t.Errorf("%s: %q, want %q", r.Task, got, want)
		}
	}
}

func TestStateByConventions(t *testing.T) {
	for want, status := range map[string]map[string]any{
		"exists":    {"replicas": int64(3)},
		"Done":      {"phase": "Done"},
		"Ready":     {"conditions": []any{map[string]any{"type": "Synced", "status": "False"}, map[string]any{"type": "Ready", "status": "True"}}},
		"not Ready": {"conditions": []any{map[string]any{"type": "Ready", "status": "Unknown"}}},
	} {
		if got := State(&unstructured.Unstructured{Object: map[string]any{"status": status}}); got != want {
			t.Errorf("%v: %q, want %q", status, got, want)
		}
	}
}

func TestObjectNamesOfAnyResource(t *testing.T) {
	for resource, want := range map[string]string{
		"boxes": "box", "policies": "policy", "gateways": "gateway", "ingressclasses": "ingressclass", "batches": "batch", "leases": "lease",
		"widgets.example.com": "widget", "replicasets": "replicaset", "storageclasses": "storage class",
	} {
		if got := ObjectName(resource + "/a"); got != want+" a" {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}
		if bare, _, _ := strings.Cut(resource, "."); bare != "storageclasses" && plural(resource) != bare {
			t.Errorf("the plural of %s is %q", bare, plural(resource))
		}
	}
}
