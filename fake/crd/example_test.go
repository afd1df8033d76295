package crd_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// An installed definition adds its resource, with defaults and validation.
func Example() {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	crd.Serve(server)
	ctx, client := context.Background(), server.Client(sim.DirectCaller())
	err := crd.Install(ctx, client, strings.NewReader(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: backups, kind: Backup}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {copies: {type: integer, default: 2, minimum: 1}}}}}}}
`))
	if err != nil {
		log.Fatal(err)
	}
	backups := client.Dynamic().Resource(schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "backups",
	}).Namespace("default")
	create := func(name string, spec map[string]any) {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": name}, "spec": spec,
		}}
		created, err := backups.Create(ctx, obj, metav1.CreateOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name, created.Object["spec"])
	}
	create("nightly", map[string]any{})
	create("hourly", map[string]any{"copies": int64(0)})
	// Output:
	// nightly map[copies:2]
	// Backup.example.com "hourly" is invalid: spec.copies: Invalid value: 0: spec.copies in body should be greater than or equal to 1
}
