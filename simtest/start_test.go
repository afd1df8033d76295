package simtest_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/simtest"
)

// startListener is a listener with clean-ups and artifacts.
type startListener struct {
	listener
	dir      string
	cleanups []func()
}

func (l *startListener) Cleanup(f func())    { l.cleanups = append(l.cleanups, f) }
func (l *startListener) ArtifactDir() string { return l.dir }

// start runs a test that may fail, with its clean-ups, and returns what it said and whether it failed.
func start(t *testing.T, test func(t testing.TB)) (said string, failed bool) {
	t.Helper()
	l := &startListener{dir: t.TempDir()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(l.cleanups) {
				f()
			}
		}()
		test(l)
	}()
	<-done
	return strings.ReplaceAll(l.said.String(), l.dir, "DIR"), l.failed
}

var steppedWorld = cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}, Devices: cluster.Array}

const dataAndWeb = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: CLASS
  resources: {requests: {storage: 64Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: pause, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// A world runs until the test has ended, live and stepped.
func TestStart(t *testing.T) {
	for name, cfg := range map[string]cluster.Config{
		"live": {Nodes: 1, Devices: cluster.Array}, "stepped": steppedWorld,
	} {
		t.Run(name, func(t *testing.T) {
			var c *cluster.Cluster
			said, failed := start(t, func(t testing.TB) {
				c = simtest.Start(t, cfg)
				simtest.Apply(t, c, strings.ReplaceAll(dataAndWeb, "CLASS", "standard"))
				simtest.WaitFor(t, c, "pods", "default", "web", "condition=Ready")
				simtest.Settle(t, c)
			})
			if failed || said != "" {
				t.Errorf("failed %t, said %q", failed, said)
			}
			if err := c.Start(context.Background()); err == nil {
				t.Error("the world was not closed")
			}
		})
	}
}

// A failed test says why, tells the story, and names the picture if one was requested.
func TestStartOfAFailedTest(t *testing.T) {
	fails := func(t testing.TB) {
		c := simtest.Start(t, steppedWorld)
		simtest.Apply(t, c, strings.ReplaceAll(dataAndWeb, "CLASS", "fast"))
		simtest.WaitFor(t, c, "pods", "default", "web", "jsonpath={.status.phase}=Running")
	}
	t.Setenv("VOLSIM_KEEP", "")
	said, failed := start(t, fails)
	if !failed {
		t.Fatal("it did not fail")
	}
	wantWords(t, said, `{.status.phase} is "Pending"; claim default/data: storage class fast not found`,
		"what happened after the start", "user creates claim default/data of 64Mi", "user creates pod default/web", "picture: not written; run go test with -artifacts")
	if strings.Contains(said, "kubelet(node-1) creates node") {
		t.Errorf("the story has the start:\n%s", said)
	}

	asked := flag.Lookup("test.artifacts")
	was := asked.Value.String()
	if err := flag.Set("test.artifacts", "true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("test.artifacts", was) })
	dir := ""
	said, _ = start(t, func(t testing.TB) { dir = t.ArtifactDir(); fails(t) })
	wantWords(t, said, "picture: "+filepath.Join("DIR", "picture.svg"))
	if svg, err := os.ReadFile(filepath.Join(dir, "picture.svg")); err != nil || !strings.Contains(string(svg), "TestListened") {
		t.Errorf("picture: %v", err)
	}

	t.Setenv("VOLSIM_KEEP", "no")
	said, _ = start(t, func(t testing.TB) { dir = t.ArtifactDir(); fails(t) })
	wantWords(t, said, "picture: not written, as VOLSIM_KEEP is no")
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// Errors of the configuration, of manifests and of users end the test.
func TestStartErrors(t *testing.T) {
	for _, test := range []struct {
		want string
		run  func(t testing.TB)
	}{
		{"cluster: -1 nodes", func(t testing.TB) { simtest.Start(t, cluster.Config{Nodes: -1}) }},
		{"apply: document 1 at line 1: no kind", func(t testing.TB) { simtest.Apply(t, simtest.Start(t, steppedWorld), "a: b") }},
		{"alice: tired", func(t testing.TB) {
			c := simtest.Start(t, steppedWorld)
			c.User("alice", func(context.Context) error { return errors.New("tired") })
			simtest.Settle(t, c)
		}},
		{"no task can run, but [alice waits for claim default/data to be Bound]\nclaim default/data to be Bound: no such claim", func(t testing.TB) {
			c := simtest.Start(t, steppedWorld)
			c.User("alice", func(ctx context.Context) error {
				return c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound)
			})
			simtest.Settle(t, c)
		}},
		{"pending: pod default/web is not running: claim default/data: storage class fast not found", func(t testing.TB) {
			c := simtest.Start(t, steppedWorld)
			simtest.Apply(t, c, strings.ReplaceAll(dataAndWeb, "CLASS", "fast"))
			simtest.Settle(t, c)
		}},
	} {
		said, failed := start(t, test.run)
		if !failed || !strings.Contains(said, test.want) {
			t.Errorf("failed %t, said %s\nwant %s", failed, said, test.want)
		}
	}
}

// What a test leaves in the API server is no error.
func TestStartLeavesObjects(t *testing.T) {
	said, failed := start(t, func(t testing.TB) {
		c := simtest.Start(t, steppedWorld)
		_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), cluster.NewClaim("data", "1Gi"), metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	if failed {
		t.Error(said)
	}
}

// The story of a failed test has the errors of its reconcilers, events and crashes.
func TestStartStory(t *testing.T) {
	cfg := steppedWorld
	cfg.Extra = []cluster.Component{cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps", Polls: true,
		Build: func(cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(context.Context, types.NamespacedName) (time.Duration, error) {
				return 0, errors.New("no disk today")
			}, nil
		},
	})}
	said, _ := start(t, func(t testing.TB) {
		c := simtest.Start(t, cfg)
		simtest.Apply(t, c, "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}")
		simtest.Apply(t, c, strings.ReplaceAll(dataAndWeb, "CLASS", "fast"))
		simtest.WaitFor(t, c, "configmaps", "default", "m", "create")
		c.Host().(*sim.Stepped).Inject("crash pvcontroller")
		if err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		t.Error("seen enough")
	})
	wantWords(t, said, "operator cannot reconcile default/m, and will retry: no disk today",
		`reports ProvisioningFailed of persistentvolumeclaim default/data: storageclass.storage.k8s.io "fast" not found`,
		">> pvcontroller crashes and restarts")
}
