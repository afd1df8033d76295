package admission_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
)

// TestPoliciesAtOnce makes requests while a policy is changed; it exercises the race detector. Each request is decided by one
// version of the policy.
func TestPoliciesAtOnce(t *testing.T) {
	w := newWorld(t, fake.Config{})
	text := func(n int) string {
		return policyOf(fmt.Sprintf("  variables: [{name: n, expression: '%d'}]\n  validations: [{expression: 'variables.n < 0', messageExpression: 'string(variables.n)'}]", n))
	}
	named := func(n int) string { return strings.ReplaceAll(text(n), "name: n,", "name: 'n',") }
	w.store(named(0))
	w.store(mutation("a", "IfNeeded", apply(`Object{data: {"seen": object.data.size}}`)))
	client, _ := w.parse(documents(named(0))[0])
	var all sync.WaitGroup
	all.Go(func() {
		for n := range 20 {
			_, policy := w.parse(documents(named(n))[0])
			stored, err := client.Get(t.Context(), "policy", getOptions)
			if err != nil {
				t.Error(err)
				return
			}
			policy.SetResourceVersion(stored.GetResourceVersion())
			if _, err := client.Update(t.Context(), "policy", policy, updateOptions); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for g := range 3 {
		all.Go(func() {
			last := -1
			for i := range 40 {
				got := w.ask(request{object: strings.Replace(configMap, "name: a,", fmt.Sprintf("name: a%d-%d,", g, i), 1)})
				_, text, _ := strings.Cut(got.text(), "denied request: ")
				n := -1
				if _, err := fmt.Sscan(text, &n); err != nil || n < last {
					t.Errorf("got %q after %d", got.text(), last)
				}
				last = n
			}
		})
	}
	all.Wait()
	if m, ok := w.server.Get("configmaps", "default", "a0-0"); ok {
		t.Errorf("stored: %v", m.(*corev1.ConfigMap).Data)
	}
}
