package crd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// processorTime returns the processor time that the process has used.
func processorTime(t *testing.T) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// The time of a validation grows with the number of errors, not with its square.
func TestManyErrors(t *testing.T) {
	w := newWorld(t)
	w.create(definitions, "", `
metadata: {name: costs.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: costs, kind: Cost}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      list: {type: array, items: {type: integer}}, map: {type: object, additionalProperties: {type: integer}}}}}}
`)
	const size = 50_000
	list, values := make([]any, size), map[string]any{}
	for i := range list {
		list[i] = "x"
		values[fmt.Sprintf("k%06d", i)] = "x"
	}
	r := widgets
	r.Resource = "costs"
	for name, value := range map[string]any{"list": list, "map": values} {
		obj := object(t, `{metadata: {name: a}}`)
		obj.Content[name] = value
		began := processorTime(t)
		_, err := w.resource(r, "default").Create(w.Context(), obj, metav1.CreateOptions{})
		if took := processorTime(t) - began; took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		first := map[string]string{"list": "list[0]", "map": "map.k000000"}[name]
		want := fmt.Sprintf(`Cost.shop.example.com "a" is invalid: [%s: Invalid value: "string": %s in body must be of type integer: "string", `,
			first, first)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %.300v", err)
		}
	}
}
