package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/loop"
)

// served runs "volsim serve" on the array until the end of the test. It returns when the kubeconfig is written.
func served(t *testing.T, kubeconfig string, args ...string) (stop func() (status int, errs string), announced string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs, head strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--kubeconfig", kubeconfig, "--devices", "array"}, args...), in, &errs)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "stop with") {
		head.WriteString(lines.Text() + "\n")
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	stop = func() (int, string) {
		cancel()
		return <-ended, errs.String()
	}
	t.Cleanup(cancel)
	return stop, head.String()
}

// TestServedClaimIsBoundAndPodReady creates a claim and a pod through the kubeconfig.
func TestServedClaimIsBoundAndPodReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, _ := served(t, path)
	client := clientOf(t, path)
	ctx := t.Context()
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Modified && ready(p) {
			break
		}
	}
	claim, err := client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
	if err != nil || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("claim: %v, phase %q, want Bound", err, claim.Status.Phase)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("kubeconfig still exists: %v", err)
	}
}

// TestServedNodesHaveLeases checks both values of --node-leases.
func TestServedNodesHaveLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, _ := served(t, path)
	client := clientOf(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	events, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	owners := map[string]string{}
	for e := range events.ResultChan() {
		if lease, ok := e.Object.(*coordinationv1.Lease); ok {
			owners[lease.Name] = lease.OwnerReferences[0].Name
		}
		if len(owners) == 2 {
			break
		}
	}
	if owners["node-1"] != "node-1" || owners["node-2"] != "node-2" {
		t.Errorf("owners of the leases: %v", owners)
	}
	stop()
	for value, want := range map[string]bool{"true": true, "false": false} {
		var o worldOptions
		var cfg cluster.Config
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.addFlags(flags)
		if err := flags.Parse([]string{"--node-leases=" + value}); err != nil {
			t.Fatal(err)
		}
		if o.apply(&cfg); cfg.NodeLeases != want {
			t.Errorf("--node-leases=%s: got %v", value, cfg.NodeLeases)
		}
	}
}

// TestServiceLeadsToTheServer checks that the service default/kubernetes has the port of the server. A
// world that is stepped manually keeps its own: it must be reproducible.
func TestServiceLeadsToTheServer(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want func(port string) string
	}{
		{nil, func(port string) string { return port + " 192.0.2.1:" + port }},
		{[]string{"--by-hand"}, func(string) string { return "6443 192.0.2.1:6443" }},
	} {
		path := filepath.Join(t.TempDir(), "config")
		stop, announced := served(t, path, tc.args...)
		core := clientOf(t, path).CoreV1()
		service, err := core.Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		endpoints, err := core.Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		target, subset := service.Spec.Ports[0].TargetPort, endpoints.Subsets[0]
		got := fmt.Sprintf("%s %s:%d", target.String(), subset.Addresses[0].IP, subset.Ports[0].Port)
		_, after, _ := strings.Cut(announced, "serving  https://127.0.0.1:")
		port, _, _ := strings.Cut(after, "\n")
		if want := tc.want(port); got != want {
			t.Errorf("%v: the service leads to %q, want %q", tc.args, got, want)
		}
		stop()
	}
}

// clientOf returns a client for a kubeconfig.
func clientOf(t *testing.T, path string) *kubernetes.Clientset {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// An existingKubeconfig has a comment and an empty list, which clientcmd does not keep.
const existingKubeconfig = `# mine
apiVersion: v1
kind: Config
clusters: []
contexts:
- name: other
  context: {cluster: other, user: ""}
current-context: other
`

// existing writes a kubeconfig that everybody can read, behind a symbolic link.
func existing(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "config")
	if err := errors.Join(os.WriteFile(path+".real", []byte(existingKubeconfig), 0o600), os.Chmod(path+".real", 0o666),
		os.Symlink(path+".real", path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// modeAndText returns the mode and the content of a file.
func modeAndText(t *testing.T, path string) (fs.FileMode, string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode(), string(text)
}

// TestServeKeepsOtherClustersInTheKubeconfig serves with an existing kubeconfig. Only its owner can read the token.
func TestServeKeepsOtherClustersInTheKubeconfig(t *testing.T) {
	path := existing(t)
	stop, _ := served(t, path)
	during, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if during.CurrentContext != "volsim" || during.Contexts["other"] == nil || during.Clusters["volsim"] == nil {
		t.Errorf("while serving: %+v", during)
	}
	if mode, _ := modeAndText(t, path+".real"); mode != 0o600 {
		t.Errorf("mode %v while serving", mode)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	if mode, text := modeAndText(t, path+".real"); mode != 0o666 || text != existingKubeconfig {
		t.Errorf("afterwards, mode %v:\n%s\nwant 0666 and:\n%s", mode, text, existingKubeconfig)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("no symbolic link any more: %v, %v", info.Mode(), err)
	}
}

// TestServeKeepsChangesOfTheKubeconfig changes the kubeconfig while it is served.
func TestServeKeepsChangesOfTheKubeconfig(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*clientcmdapi.Config)
		want   []string
	}{
		{"another context", func(c *clientcmdapi.Config) {
			c.Contexts["third"] = &clientcmdapi.Context{Cluster: "third"}
		}, []string{"name: third", "clusters: []", "users: []", "current-context: other"}},
		{"a later server", func(c *clientcmdapi.Config) {
			c.Clusters["volsim"].Server = "https://127.0.0.1:1"
		}, []string{"server: https://127.0.0.1:1", "current-context: volsim"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := existing(t)
			stop, _ := served(t, path)
			during, err := clientcmd.LoadFromFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(during)
			if err := clientcmd.WriteToFile(*during, path); err != nil {
				t.Fatal(err)
			}
			if status, errs := stop(); status != 0 || errs != "" {
				t.Errorf("status %d, stderr %q", status, errs)
			}
			_, text := modeAndText(t, path)
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
}

func TestServeWarnsAboutOtherHosts(t *testing.T) {
	for address, warns := range map[string]bool{
		"0.0.0.0:0": true, ":0": true, "[::]:0": true, "127.0.0.1:0": false, "localhost:0": false, "[::1]:0": false,
	} {
		var errs strings.Builder
		warnAboutAddress(&errs, address)
		if errs.Len() > 0 != warns {
			t.Errorf("%s: %q", address, errs.String())
		}
	}
	stop, _ := served(t, filepath.Join(t.TempDir(), "config"), "--listen", "0.0.0.0:0")
	if status, errs := stop(); status != 0 || !strings.HasPrefix(errs, "volsim: warning: --listen 0.0.0.0:0 admits other hosts") || strings.Count(errs, "\n") != 1 {
		t.Errorf("status %d, stderr %q; want a warning", status, errs)
	}
}

// TestServeByHandRunsNoSteps creates a claim over HTTPS and checks that no controller reacts.
func TestServeByHandRunsNoSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, head := served(t, path, "--by-hand")
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	claims := kubernetes.NewForConfigOrDie(cfg).CoreV1().PersistentVolumeClaims("default")
	created, err := claims.Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := claims.Get(t.Context(), "data", metav1.GetOptions{}); err != nil || got.ResourceVersion != created.ResourceVersion {
		t.Errorf("created as %s, now %v, %v", created.ResourceVersion, got, err)
	}
	_, rest, found := strings.Cut(head, "page     ")
	link, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.HasPrefix(link, "http://127.0.0.1:") {
		t.Errorf("no link to the page: %s", head)
	}
	reply, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK || len(reply.Cookies()) != 1 {
		t.Errorf("open link: %s", reply.Status)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestServeWithoutAPage(t *testing.T) {
	stop, head := served(t, filepath.Join(t.TempDir(), "config"), "--page", "off")
	if strings.Contains(head, "page ") {
		t.Errorf("unexpected page: %s", head)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

// TestServeConfiguresTheWorld checks the effect of each option of the world.
func TestServeConfiguresTheWorld(t *testing.T) {
	limited := func(t *testing.T, client kubernetes.Interface) {
		node, err := client.StorageV1().CSINodes().Get(t.Context(), "node-2", metav1.GetOptions{})
		if err != nil || len(node.Spec.Drivers) != 1 || node.Spec.Drivers[0].Allocatable == nil || *node.Spec.Drivers[0].Allocatable.Count != 3 {
			t.Errorf("CSINode %v, %v; want a limit of 3", node, err)
		}
	}
	labelled := func(t *testing.T, client kubernetes.Interface) {
		driver, err := client.StorageV1().CSIDrivers().Get(t.Context(), "array.csi.volsim.dev", metav1.GetOptions{})
		if err != nil || driver.Spec.SELinuxMount == nil || !*driver.Spec.SELinuxMount {
			t.Errorf("CSIDriver %v, %v; want seLinuxMount", driver, err)
		}
	}
	for _, tt := range []struct {
		args  string
		check func(*testing.T, kubernetes.Interface)
	}{
		{"--volumes-per-node 3", limited},
		{"--volumes-per-node 3 --by-hand", limited},
		{"--selinux --selinux-mount", labelled},
		{"--selinux --by-hand", labelled},
		{"--health-monitor", func(t *testing.T, client kubernetes.Interface) {
			text, err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-1/proxy/stats/summary").DoRaw(t.Context())
			if err != nil || !strings.Contains(string(text), `"nodeName": "node-1"`) {
				t.Errorf("summary of a kubelet %s, %v", text, err)
			}
		}},
		{"--leader-election", func(t *testing.T, client kubernetes.Interface) {
			leases, err := client.CoordinationV1().Leases("kube-system").Watch(t.Context(),
				metav1.ListOptions{FieldSelector: "metadata.name=array-csi-volsim-dev"})
			if err != nil {
				t.Fatal(err)
			}
			defer leases.Stop()
			lease, is := (<-leases.ResultChan()).Object.(*coordinationv1.Lease)
			if !is || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "provisioner" {
				t.Errorf("the Lease of the provisioner is %v", lease)
			}
		}},
		{"--kubelets-attach", func(t *testing.T, client kubernetes.Interface) {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			if _, managed := node.Annotations["volumes.kubernetes.io/controller-managed-attach-detach"]; err != nil || managed {
				t.Errorf("annotations %v, %v; want none for the attach/detach controller", node.Annotations, err)
			}
		}},
		{"--components pvcontroller,pvcprotection", func(t *testing.T, client kubernetes.Interface) {
			nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(nodes.Items) != 0 {
				t.Errorf("nodes %v, %v; want none, since no kubelet registers them", nodes, err)
			}
		}},
		{"--host-path-provisioning", func(t *testing.T, client kubernetes.Interface) {
			_, err := client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "directories"}, Provisioner: "kubernetes.io/host-path",
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			claim := cluster.NewClaim("data", "64Mi")
			claim.Spec.StorageClassName = ptr.To("directories")
			created, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			changes, err := client.CoreV1().PersistentVolumeClaims("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer changes.Stop()
			for e := range changes.ResultChan() {
				if e.Object.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
					return
				}
			}
			t.Error("claim is not bound")
		}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			stop, _ := served(t, path, strings.Fields(tt.args)...)
			cfg, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			tt.check(t, kubernetes.NewForConfigOrDie(cfg))
			if status, errs := stop(); status != 0 || errs != "" {
				t.Errorf("status %d, stderr %q", status, errs)
			}
		})
	}
}

// TestServeNamesTheKubelets prints where a CSI driver can register.
func TestServeNamesTheKubelets(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	dir := t.TempDir()
	stop, head := served(t, filepath.Join(t.TempDir(), "config"), "--devices", "loop", "--dir", dir, "--nodes", "1")
	_, rest, _ := strings.Cut(head, "kubelet  ")
	kubelet, _, _ := strings.Cut(rest, "\n")
	if info, err := os.Stat(filepath.Join(kubelet, "plugins_registry")); err != nil || !info.IsDir() || !strings.HasPrefix(kubelet, dir) {
		t.Errorf("kubelet %q: %v", kubelet, err)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestServeRejectsInvalidOptions(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no nodes", []string{"--nodes", "0"}, "invalid --nodes 0: want at least 1"},
		{"unknown devices", []string{"--devices", "tape"}, `devices "tape": want auto, loop, lvm or array`},
		{"invalid address", []string{"--devices", "array", "--listen", "nowhere"}, `invalid --listen "nowhere": want an address with a port`},
		{"no such folder", []string{"--devices", "array", "--kubeconfig", filepath.Join(dir, "file", "config")}, ""},
		{"not a kubeconfig", []string{"--devices", "array", "--kubeconfig", bad}, "read kubeconfig "},
		{"no kubeconfig", []string{"--kubeconfig", ""}, "--kubeconfig is empty"},
		{"page on all addresses", []string{"--devices", "array", "--page", "0.0.0.0:0"}, `invalid page address "0.0.0.0:0": want a loopback address`},
		{"limit of real devices", []string{"--devices", "loop", "--volumes-per-node", "2"}, "--volumes-per-node requires --devices array"},
		{"labels of real devices", []string{"--devices", "lvm", "--selinux"}, "--selinux requires --devices array"},
		{"negative limit", []string{"--volumes-per-node", "-1"}, "invalid --volumes-per-node -1"},
		{"no period", []string{"--sync-frequency", "0s"}, "invalid --sync-frequency 0s"},
		{"a short grace period", []string{"--node-monitor-grace-period", "10s"}, "invalid --node-monitor-grace-period 10s: kubelets renew Leases every 10s"},
		{"no clock", []string{"--clock-speed", "0"}, "invalid --clock-speed 0: want at least 1"},
		{"a fast clock by hand", []string{"--by-hand", "--clock-speed", "2"}, "--by-hand does not support --clock-speed"},
		{"gate alone", []string{"--selinux-mount"}, "--selinux-mount requires --selinux"},
		{"tokens by hand", []string{"--by-hand", "--mount-tokens"}, "--by-hand does not support --mount-tokens"},
		{"no component", []string{"--components", ""}, "--components is empty"},
		{"unknown component", []string{"--devices", "array", "--components", "pvcontroler"}, `--components: no such component "pvcontroler" (have pvcontroller, `},
		{"unknown component by hand", []string{"--by-hand", "--components", "pvcontroler"}, `--components: no such component "pvcontroler" (have pvcontroller, `},
		{"kubelets attach by hand", []string{"--by-hand", "--kubelets-attach"}, "--by-hand does not support --kubelets-attach"},
		{"leaders by hand", []string{"--by-hand", "--leader-election"}, "--by-hand does not support --leader-election"},
		{"health by hand", []string{"--by-hand", "--health-monitor"}, "--by-hand does not support --health-monitor"},
		{"by hand without a page", []string{"--by-hand", "--page", "off"}, "--by-hand requires the page"},
		{"by hand with real devices", []string{"--by-hand", "--devices", "loop"}, "remove --devices loop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				tt.want = "not a directory"
			}
			status, _, errs := volsim(t.Context(), append([]string{"serve"}, tt.args...)...)
			if status != 2 || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, stderr %q, want 2 and one line with %q", status, errs, tt.want)
			}
		})
	}
}
