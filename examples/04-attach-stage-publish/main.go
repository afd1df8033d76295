// # Lesson 4: attach, stage, publish
//
// Bound means that claim and volume belong together. It does not mean that a pod can use the
// volume. Up to three calls of the CSI driver lie between a bound claim and a directory in a
// container (some drivers need no attach, or no stage):
//
//   - **ControllerPublishVolume** (attach): the node sees a device. The attacher calls it.
//   - **NodeStageVolume** (stage): the device is mounted, once per node. The kubelet calls it.
//   - **NodePublishVolume** (publish): the mount is bound into the pod's directory. The kubelet
//     calls it.
//
// This lesson is not simulated: it uses a real loop device with a real ext4 file system. It
// requires Linux and root.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim/trace"
)

// ## A pod with a volume
//
// This world runs by itself: `cluster.New` creates a live cluster by default. We create a claim and
// a pod, and wait. To its users it is an ordinary cluster: `c.Client()` is a
// `kubernetes.Interface`.
func running(ctx context.Context) *cluster.Cluster {
	klog.SetLogger(logr.Discard()) // the mount library logs a lot
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Loop})
	check(err)
	check(c.Start(ctx))
	_, err = c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{})
	check(err)
	_, err = c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	check(err)
	check(c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	return c
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// uid matches the parts of a live world that are random.
var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// ## The calls
//
// The cluster's trace records everything that happened. These are the driver calls that matter, in
// order.
func printCalls(records []trace.Record) {
	for _, r := range records {
		if _, matters := trace.Describe(r); matters && r.Kind == trace.KindDriver {
			fmt.Println(trace.Process(r.Task), "calls", r.Verb)
		}
	}
}

func calls() {
	c := running(context.Background())
	defer c.Close()
	printCalls(c.Trace().Records())
}

// ## What is mounted
//
// The pod's mount is real, so we can ask the kernel. The source is a loop device, a file that acts
// as a disk. The target is a path that every kubelet in the world uses: `pods/<UID of the
// pod>/volumes/kubernetes.io~csi/<volume>/mount`.
func mounted() {
	c := running(context.Background())
	defer c.Close()
	path, err := c.MountPath("default", "web", "data")
	check(err)
	_, below, _ := strings.Cut(path, "/pods/")
	row, err := exec.Command("findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", path).Output()
	check(err)
	what := strings.Fields(string(row))
	fmt.Println("pods/" + uid.ReplaceAllString(below, "<uid>"))
	fmt.Println("is a mount of", strings.TrimRight(what[0], "0123456789")+"…, formatted as", what[1])

	check(c.WriteFile("default", "web", "data", "greeting", []byte("hello")))
	greeting, err := os.ReadFile(filepath.Join(path, "greeting"))
	check(err)
	fmt.Printf("a file written by the pod, read on this machine: %s\n", greeting)
}

// ## A question
//
// Now we delete the pod, but not the claim. Which of the calls are undone, in which order, and
// which one is not?
func answer() {
	ctx := context.Background()
	c := running(ctx)
	defer c.Close()
	before := c.Trace().Steps()
	check(c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
	check(c.WaitForRest(ctx))
	printCalls(c.Trace().Records()[before:])
	fmt.Println("DeleteVolume is not among them: the claim still needs its data.")
}

func main() {
	calls()
	mounted()
	answer()
}
