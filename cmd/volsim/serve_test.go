package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volsim/volsim/cluster"
)

// served runs "volsim serve" on the array until the test is over, and returns when the kubeconfig is there.
func served(t *testing.T, kubeconfig string, args ...string) (stop func() (status int, errs string), announced string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs, said strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--kubeconfig", kubeconfig, "--devices", "array"}, args...), in, &errs)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "stop with") {
		said.WriteString(lines.Text() + "\n")
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
	return stop, said.String()
}

// TestServedClaimIsBoundAndPodReady applies a claim and a pod by HTTPS, by way of the kubeconfig.
func TestServedClaimIsBoundAndPodReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, _ := served(t, path)
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
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
		t.Errorf("the kubeconfig is left: %v", err)
	}
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// TestServeLeavesOtherClustersInTheKubeconfig serves with a kubeconfig that was there before.
func TestServeLeavesOtherClustersInTheKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	was := clientcmdapi.NewConfig()
	was.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other.example"}
	was.Contexts["other"] = &clientcmdapi.Context{Cluster: "other"}
	was.CurrentContext = "other"
	if err := clientcmd.WriteToFile(*was, path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stop, _ := served(t, path)
	during, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if during.CurrentContext != "volsim" || during.Clusters["other"] == nil || during.Clusters["volsim"] == nil {
		t.Errorf("while serving: %+v", during)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Errorf("afterwards:\n%s\nwant:\n%s", after, before)
	}
}

// TestServeByHandStandsStill creates a claim by HTTPS, and nothing comes of it before somebody steps.
func TestServeByHandStandsStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	stop, said := served(t, path, "--by-hand")
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	claims := kubernetes.NewForConfigOrDie(cfg).CoreV1().PersistentVolumeClaims("default")
	made, err := claims.Create(t.Context(), cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := claims.Get(t.Context(), "data", metav1.GetOptions{}); err != nil || got.ResourceVersion != made.ResourceVersion {
		t.Errorf("it was made as %s, and is %v, %v", made.ResourceVersion, got, err)
	}
	_, rest, found := strings.Cut(said, "page     ")
	link, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.HasPrefix(link, "http://127.0.0.1:") {
		t.Errorf("no link to the page: %s", said)
	}
	reply, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK || len(reply.Cookies()) != 1 {
		t.Errorf("the link is answered with %s", reply.Status)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestServeWithoutAPage(t *testing.T) {
	stop, said := served(t, filepath.Join(t.TempDir(), "config"), "--page", "off")
	if strings.Contains(said, "page ") {
		t.Errorf("there is a page: %s", said)
	}
	if status, errs := stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestServeSaysWhatIsWrong(t *testing.T) {
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
		{"no nodes", []string{"--nodes", "0"}, "--nodes 0: want at least 1"},
		{"strange devices", []string{"--devices", "tape"}, `devices "tape": want auto, loop, lvm or array`},
		{"strange address", []string{"--devices", "array", "--listen", "nowhere"}, "listen on nowhere: "},
		{"no such folder", []string{"--devices", "array", "--kubeconfig", filepath.Join(dir, "file", "config")}, ""},
		{"not a kubeconfig", []string{"--devices", "array", "--kubeconfig", bad}, "read kubeconfig: "},
		{"no kubeconfig", []string{"--kubeconfig", ""}, "--kubeconfig: name a file"},
		{"a page for everybody", []string{"--devices", "array", "--page", "0.0.0.0:0"}, "page on 0.0.0.0:0: want an address of loopback"},
		{"by hand without a page", []string{"--by-hand", "--page", "off"}, "--by-hand: a world is moved from the page"},
		{"by hand with real devices", []string{"--by-hand", "--devices", "loop"}, "take --devices loop away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				tt.want = "kubeconfig: "
			}
			status, _, errs := volsim(t.Context(), append([]string{"serve"}, tt.args...)...)
			if status != 1 || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, stderr %q, want one line with %q", status, errs, tt.want)
			}
		})
	}
}
