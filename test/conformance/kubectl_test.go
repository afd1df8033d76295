package conformance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
)

// kubectlVersion is the version that the kubectl built here reports.
const kubectlVersion = "v1.36.3"

// TestKubectl runs the scripts of testdata/kubectl: the kubectl program against a live cluster on
// the array, over HTTPS. Each script has its own cluster. The expected results were checked on a
// real server as far as that is possible without controllers. It also has kubectl apply the volumes
// that people write: on the array, and on the program "volsim serve"; see testKubectlVolumes.
func TestKubectl(t *testing.T) {
	bin := t.TempDir()
	build(t, filepath.Join(bin, "kubectl"), "./cmd/kubectl",
		"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+kubectlVersion+
			" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36")
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "kubectl"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"stopkubelet": stopKubelet, "startkubelet": startKubelet, "waitsuccessor": waitSuccessor,
			"readenv": readEnv,
		},
		Setup: func(env *testscript.Env) error {
			cfg := cluster.Config{Devices: cluster.Array, LocalStorage: filepath.Base(env.WorkDir) == "script-localstorage"}
			if strings.HasPrefix(filepath.Base(env.WorkDir), "script-dying") {
				cfg.NodeLeases, cfg.ClockSpeed = true, dyingSpeed
			}
			if filepath.Base(env.WorkDir) == "script-admission" {
				cfg.API.Services = scriptWebhooks
			}
			if strings.HasPrefix(filepath.Base(env.WorkDir), "script-containers") {
				cfg.Containers = cluster.ShellContainers
			}
			w, err := serveCluster(cfg)
			if err != nil {
				return err
			}
			env.Values[servedKey{}] = w
			env.Defer(func() {
				if err := w.close(); err != nil {
					t.Error(err)
				}
			})
			for i := 1; cfg.LocalStorage && i <= 2; i++ {
				disk := cluster.Disk{Path: "/dev/sdb", SizeBytes: int64(i) << 26, Block: true}
				if err := w.cluster.AddDisk(fmt.Sprintf("node-%d", i), disk); err != nil {
					return err
				}
			}
			config := filepath.Join(env.WorkDir, ".config")
			env.Setenv("KUBECONFIG", config)
			env.Setenv("HOME", env.WorkDir) // of kubectl's cache
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return clientcmd.WriteToFile(*w.listener.Kubeconfig("volsim"), config)
		},
	})
	t.Run("volumes on array", func(t *testing.T) {
		t.Parallel()
		testKubectlVolumes(t, filepath.Join(bin, "kubectl"), cluster.Array, serveVolumes(t))
	})
	program := buildCommand(t)
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		t.Run("volumes on "+string(devices), func(t *testing.T) {
			t.Parallel()
			testKubectlVolumes(t, filepath.Join(bin, "kubectl"), devices, startServe(t, program, devices))
		})
	}
	for _, kind := range []string{"shell", "process"} {
		t.Run("containers as "+kind+" on loop", func(t *testing.T) {
			t.Parallel()
			testKubectlContainers(t, bin, program, kind)
		})
	}
}

// testKubectlContainers runs the script containers.txtar against the program "volsim serve" on loop devices.
func testKubectlContainers(t *testing.T, bin, program, kind string) {
	if _, err := exec.LookPath("busybox"); err != nil && kind == "process" {
		t.Skip("busybox not found: install busybox-static")
	}
	w := startServe(t, program, cluster.Loop, "--containers", kind)
	testscript.Run(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "kubectl", "containers.txtar")},
		Setup: func(env *testscript.Env) error {
			env.Defer(func() {
				if err := w.close(); err != nil {
					t.Error(err)
				}
			})
			env.Setenv("KUBECONFIG", w.config())
			env.Setenv("HOME", env.WorkDir) // of kubectl's cache
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
	})
}

// dyingSpeed is the speed of the clock in the scripts about dying nodes: a node is declared dead after
// 2.5 s, and the pods of a deleted Node are removed after 2 s.
const dyingSpeed = 20

// servedKey is the key of a script's cluster.
type servedKey struct{}

// stopKubelet is the command "stopkubelet POD" of scripts: the kubelet of the pod's node stops. The
// variables NODE and POD_UID have the name of the node and the UID of the pod.
func stopKubelet(ts *testscript.TestScript, _ bool, args []string) {
	c := ts.Value(servedKey{}).(*served).cluster
	obj, ok := c.Server().Get("pods", "default", args[0])
	if !ok {
		ts.Fatalf("no pod %s", args[0])
	}
	node := obj.(*corev1.Pod).Spec.NodeName
	ts.Check(c.Stop("kubelet(" + node + ")"))
	ts.Setenv("NODE", node)
	ts.Setenv("POD_UID", string(obj.GetUID()))
}

// waitSuccessor is the command "waitsuccessor POD" of scripts: it waits until the pod is another one than
// that of stopkubelet. kubectl wait does not tell the two apart.
func waitSuccessor(ts *testscript.TestScript, _ bool, args []string) {
	c := ts.Value(servedKey{}).(*served).cluster
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(c.Wait(ctx, "another pod "+args[0], func() bool {
		obj, ok := c.Server().Get("pods", "default", args[0])
		return ok && string(obj.GetUID()) != ts.Getenv("POD_UID")
	}))
}

// readEnv is the command "readenv VARIABLE FILE" of scripts: the variable has the content of the file.
func readEnv(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// startKubelet is the command "startkubelet NODE" of scripts: the kubelet starts again.
func startKubelet(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Value(servedKey{}).(*served).cluster.Resume("kubelet(" + args[0] + ")"))
}

// build builds a program of this module or of one that it requires.
func build(t *testing.T, to, pkg string, flags ...string) {
	t.Helper()
	args := append([]string{"build", "-o", to}, flags...)
	if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}
