package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
)

// BenchmarkPolicies creates config maps under some policies, each with one expression.
func BenchmarkPolicies(b *testing.B) {
	for _, policies := range []int{0, 1, 10} {
		b.Run(fmt.Sprint(policies), func(b *testing.B) {
			benchmarkPolicies(b, policies, policyOf("  validations: [{expression: has(object.data)}]"), "policy")
		})
	}
	b.Run("mutating", func(b *testing.B) {
		benchmarkPolicies(b, 1, mutation("m", "Never", apply(`Object{data: {"a": "b"}}`)), "m")
	})
	b.Run("another resource", func(b *testing.B) {
		benchmarkPolicies(b, 1, strings.ReplaceAll(policyOf("  validations: [{expression: 'false'}]"), "[configmaps]", "[secrets]"), "policy")
	})
}

func benchmarkPolicies(b *testing.B, policies int, text, name string) {
	w := newWorld(b, fake.Config{})
	for i := range policies {
		n := fmt.Sprint("p", i)
		w.store(strings.NewReplacer("name: "+name, "name: "+n, "policyName: "+name, "policyName: "+n, "name: binding", "name: "+n).Replace(text))
	}
	maps := w.client.CoreV1().ConfigMaps("default")
	i := 0
	for b.Loop() {
		i++
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}, Data: map[string]string{"k": "v"}}
		if _, err := maps.Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
