package ctrlruntime_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/ctrlruntime"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

const boxDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boxes, kind: Box}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {config: {type: string, default: x}}}}}}}
`

// An operator brings its definitions as files. Without a logger it logs nothing.
func TestDefinitionsByPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "boxes.yaml"), []byte(boxDefinition), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := func(path string) cluster.Component {
		return ctrlruntime.Component(ctrlruntime.Config{
			Name: "operator", Scheme: scheme, CRDDirectoryPaths: []string{path},
			Setup: func(mgr manager.Manager) error {
				if _, discards := mgr.GetLogger().GetSink().(log.NullLogSink); !discards {
					t.Errorf("logs to %T", mgr.GetLogger().GetSink())
				}
				return (&boxReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr)
			},
		})
	}
	c := operated(t, operator(dir))
	box := newBox("a", "")
	create(t, c, box)
	rest(t, c)
	if box.Spec.Config != "x" || secretsOf(t, c) != 1 {
		t.Errorf("default %q, %d secrets", box.Spec.Config, secretsOf(t, c))
	}
	_, err := cluster.New(cluster.Config{
		Components: []string{}, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{operator(dir + "/missing")},
	})
	if err == nil || !strings.Contains(err.Error(), "CRDDirectoryPaths: ") {
		t.Errorf("error %v for a missing directory", err)
	}
}
