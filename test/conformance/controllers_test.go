package conformance_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/volsim/volsim/cluster"
)

// controllersMax is the time limit for each awaited condition.
const controllersMax = time.Minute

// TestControllersOnARealServer runs two processes of "volsim controllers" against a real
// kube-apiserver. The first one binds and is killed; the second one takes over.
func TestControllersOnARealServer(t *testing.T) {
	cfg := realServer(t)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := realWorld{t, client}
	program, kubeconfig := buildCommand(t), kubeconfigFor(t, cfg)
	three := []string{
		"--only", "pvcontroller,pvprotection,pvcprotection",
		"--lease-duration", "4s", "--lease-renew-deadline", "3s", "--lease-retry-period", "200ms",
	}
	first := startControllers(t, program, kubeconfig, three...)
	first.until("acting")
	second := startControllers(t, program, kubeconfig, three...)
	second.until("lease       kube-system/volsim-controllers is held by")

	w.createPair("one")
	w.untilClaim("one", "bound", isBound)
	w.untilVolume("one", "bound and protected", func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase == corev1.VolumeBound && v.Spec.ClaimRef.Name == "one" && len(v.Finalizers) > 0
	})
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // killed
	second.until("acting")
	w.createPair("two")
	w.untilClaim("two", "bound", isBound)
	w.must(client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "one", metav1.DeleteOptions{}))
	w.untilVolume("one", "released", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	w.must(client.CoreV1().PersistentVolumes().Delete(t.Context(), "one", metav1.DeleteOptions{}))
	w.untilVolume("one", "gone", nil)

	second.stop()
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "volsim-controllers", metav1.GetOptions{})
	w.must(err)
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is held by %s", *lease.Spec.HolderIdentity)
	}
}

func isBound(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound }

// buildCommand builds volsim.
func buildCommand(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "volsim")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/volsim")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// kubeconfigFor writes a kubeconfig.
func kubeconfigFor(t *testing.T, cfg *clientrest.Config) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["real"] = &clientcmdapi.Cluster{Server: cfg.Host, InsecureSkipTLSVerify: true}
	c.AuthInfos["real"] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	c.Contexts["real"] = &clientcmdapi.Context{Cluster: "real", AuthInfo: "real"}
	c.CurrentContext = "real"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// A controllers is a process of "volsim controllers".
type controllers struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines <-chan string
}

func startControllers(t *testing.T, program, kubeconfig string, args ...string) *controllers {
	t.Helper()
	c := &controllers{t: t, cmd: exec.CommandContext(t.Context(), program, append([]string{"controllers", "--kubeconfig", kubeconfig}, args...)...)}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	c.lines = lines
	return c
}

// stop ends the process as Kubernetes does.
func (c *controllers) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	c.until("stopped")
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("after SIGTERM: %v", err)
	}
}

// until waits for an output line with a prefix.
func (c *controllers) until(beginning string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), controllersMax)
	defer cancel()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("output ended without %q", beginning)
			}
			if strings.HasPrefix(line, beginning) {
				return
			}
		case <-ctx.Done():
			c.t.Fatalf("no line %q", beginning)
		}
	}
}

// A realWorld is a user of a real server.
type realWorld struct {
	t      *testing.T
	client kubernetes.Interface
}

func (w realWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// createPair creates a volume and a matching claim.
func (w realWorld) createPair(name string) {
	w.t.Helper()
	_, err := w.client.CoreV1().PersistentVolumes().Create(w.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	none, claim := "", cluster.NewClaim(name, "1Gi")
	claim.Spec.StorageClassName = &none
	_, err = w.client.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), claim, metav1.CreateOptions{})
	w.must(err)
}

func (w realWorld) untilClaim(name, what string, cond func(*corev1.PersistentVolumeClaim) bool) {
	w.t.Helper()
	w.until("claim "+name+" to be "+what, "persistentvolumeclaims", name, &corev1.PersistentVolumeClaim{}, func(obj runtime.Object) bool {
		c, ok := obj.(*corev1.PersistentVolumeClaim)
		return ok && cond(c)
	})
}

// untilVolume waits until a volume satisfies a condition; nil waits for its deletion.
func (w realWorld) untilVolume(name, what string, cond func(*corev1.PersistentVolume) bool) {
	w.t.Helper()
	w.until("volume "+name+" to be "+what, "persistentvolumes", name, &corev1.PersistentVolume{}, func(obj runtime.Object) bool {
		v, ok := obj.(*corev1.PersistentVolume)
		return !ok && cond == nil || ok && cond != nil && cond(v)
	})
}

// until watches an object until cond holds. cond receives nil if the object does not exist.
func (w realWorld) until(what, resources, name string, example runtime.Object, cond func(runtime.Object) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), controllersMax)
	defer cancel()
	source := cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), resources, metav1.NamespaceAll,
		fields.OneTermEqualSelector("metadata.name", name))
	_, err := toolswatch.UntilWithSync(ctx, source, example,
		func(now cache.Store) (bool, error) { return len(now.List()) == 0 && cond(nil), nil },
		func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return cond(nil), nil
			}
			return cond(e.Object), nil
		})
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}
