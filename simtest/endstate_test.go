package simtest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// endOf returns the state of a server with two ConfigMaps of an operator.
func endOf(t *testing.T, ignore []string, value string, more ...string) state {
	t.Helper()
	server := fake.NewServer(fake.Config{SkipBootstrap: true, Now: func() time.Time { return sim.Epoch }})
	maps := server.Client(sim.DirectCaller()).CoreV1().ConfigMaps("default")
	written := map[objectKey]bool{}
	for _, name := range append([]string{"a", "other"}, more...) { // other is not the operator's
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value, "at": "2026-01-01T00:00:00Z"}}
		if generate, is := strings.CutSuffix(name, "*"); is {
			object.ObjectMeta = metav1.ObjectMeta{GenerateName: generate, Annotations: map[string]string{"value": value}}
		}
		stored, err := maps.Create(t.Context(), object, metav1.CreateOptions{})
		testcheck.NoError(t, err)
		if name != "other" {
			written[objectKey{"configmaps", "default", stored.Name}] = true
		}
	}
	p, err := CustomResource{Definition: "testdata/vaults.yaml", Object: "testdata/vault.yaml", Ignore: ignore}.prepare("")
	testcheck.NoError(t, err)
	return (&convergence{preparedResource: p}).stateOf(server, written)
}

// States differ in the operator's objects and their values, but not in generated names, uids and times.
func TestStatesDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		ignore    []string
		want, got func(ignore []string) state
		diff      string
	}{
		"equal":                   {nil, func(i []string) state { return endOf(t, i, "1", "g-*", "z") }, func(i []string) state { return endOf(t, i, "1", "z", "g-*") }, ""},
		"value":                   {nil, func(i []string) state { return endOf(t, i, "1") }, func(i []string) state { return endOf(t, i, "2") }, `configmaps default/a: data.key: got "2", want "1"`},
		"left over":               {nil, func(i []string) state { return endOf(t, i, "1") }, func(i []string) state { return endOf(t, i, "1", "g-*") }, "configmaps default/g-*: got one, want none"},
		"two of a generated name": {nil, func(i []string) state { return endOf(t, i, "1", "g-*", "g-*") }, func(i []string) state { return endOf(t, i, "1", "g-*") }, "configmaps default/g-* (2): got none, want one"},
		"ignored field":           {[]string{"configmaps data.key"}, func(i []string) state { return endOf(t, i, "1") }, func(i []string) state { return endOf(t, i, "2") }, ""},
		"ignored resource":        {[]string{"configmaps"}, func(i []string) state { return endOf(t, i, "1") }, func(i []string) state { return endOf(t, i, "2", "b") }, ""},
	} {
		if diff := strings.Join(c.want(c.ignore).diff(c.got(c.ignore)), "\n"); diff != c.diff {
			t.Errorf("%s: got %q, want %q", name, diff, c.diff)
		}
	}
}
