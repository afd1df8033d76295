package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

const backupDefinition = `
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
`

// useBackup creates a backup without copies, and reads the default.
func useBackup(ctx context.Context, c *cluster.Cluster) (copies int64, err error) {
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		return 0, err
	}
	backups := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "backups"})
	made, err := backups.Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "b"}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	copies, _, err = unstructured.NestedInt64(made.Object, "spec", "copies")
	return copies, err
}

// files writes files into a new directory and returns its path.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		testcheck.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// A world serves the definitions at the paths of its configuration from the beginning. A component
// may serve further ones.
func TestDefinitionsByPath(t *testing.T) {
	dir := files(t, map[string]string{
		"backups.yaml":       backupDefinition,
		"kustomization.yaml": "resources: [backups.yaml]\n",
		"README.md":          "no YAML: [",
		"patches/more.yaml":  "neither: [",
	})
	for _, path := range []string{dir, filepath.Join(dir, "backups.yaml")} {
		for name, stepped := range map[string]*sim.SteppedConfig{"live": nil, "stepped": {}} {
			c, err := cluster.New(cluster.Config{
				Devices: cluster.Array, Nodes: 1, Stepped: stepped, CRDDirectoryPaths: []string{path},
			})
			testcheck.NoError(t, err)
			crd.Serve(c.Server()) // as a component's Install may
			var copies int64
			c.User("operator", func(ctx context.Context) (err error) {
				copies, err = useBackup(ctx, c)
				return err
			})
			testcheck.NoError(t, c.Run(t.Context()))
			if copies != 2 {
				t.Errorf("%s: %d copies, want the default 2", name, copies)
			}
			testcheck.NoError(t, c.Close())
		}
	}
}

func TestDefinitionsThatAreMissing(t *testing.T) {
	dir := files(t, map[string]string{
		"empty/kustomization.yaml": "resources: []\n",
		"broken/backups.yaml":      strings.Replace(backupDefinition, "Namespaced", "Everywhere", 1),
	})
	for path, want := range map[string]string{
		"no-such": "cluster: CRDDirectoryPaths: stat " + filepath.Join(dir, "no-such") + ": no such file or directory",
		"empty":   "cluster: CRDDirectoryPaths: " + filepath.Join(dir, "empty") + ": no CustomResourceDefinition found",
		"broken": "cluster: CRDDirectoryPaths: " + filepath.Join(dir, "broken", "backups.yaml") +
			`: create definition: CustomResourceDefinition.apiextensions.k8s.io "backups.example.com" is invalid: spec.scope: `,
	} {
		_, err := cluster.New(cluster.Config{
			Stepped: &sim.SteppedConfig{}, CRDDirectoryPaths: []string{filepath.Join(dir, path)},
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", path, err, want)
		}
	}
}

// crd.Install takes the client of a world.
func TestDefinitionsThroughTheClient(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	testcheck.NoError(t, err)
	defer c.Close()
	crd.Serve(c.Server())
	c.User("operator", func(ctx context.Context) error {
		if err := crd.Install(ctx, c.Client(), strings.NewReader(backupDefinition)); err != nil {
			return err
		}
		_, err := useBackup(ctx, c)
		return err
	})
	testcheck.NoError(t, c.Run(t.Context()))

	foreign, err := kubernetes.NewForConfig(c.RESTConfig())
	testcheck.NoError(t, err)
	err = crd.Install(t.Context(), foreign, strings.NewReader(backupDefinition))
	const want = "install definitions: client *kubernetes.Clientset is not of package fake: use the client of a fake.Server or a cluster"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := useBackup(t.Context(), c); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v, want that the backup exists", err)
	}
}
