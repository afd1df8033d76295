// # Lesson 4: attach, stage, publish
//
// Bound means: it is settled which volume it is. It does not mean that it can be used. Between that and a directory in a
// container are up to three calls of the CSI driver (some drivers need no attach, or no stage):
// **ControllerPublishVolume** (attach: the node sees a device; the attacher calls it), **NodeStageVolume** (stage: the device is
// mounted, once for the node; the kubelet calls it) and **NodePublishVolume** (publish: the mount is bound into the pod's directory).
//
// This lesson is not simulated: it makes a real loop device with a real ext4 on it. So it takes Linux, and root.
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
// The world moves by itself here: `cluster.New` without more is live. We make a claim and a pod, and wait. The cluster is an
// ordinary one to its users: `c.Client()` is a `kubernetes.Interface`.
func running(ctx context.Context) *cluster.Cluster {
	klog.SetLogger(logr.Discard()) // what mounts here talks a lot
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

// uid is what is made of random numbers in a live world.
var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// ## The calls
//
// Everything that happened is in the cluster's trace. These are the calls of the driver that matter, in order.
func tell(records []trace.Record) {
	for _, r := range records {
		if _, matters := trace.Describe(r); matters && r.Kind == trace.KindDriver {
			fmt.Println(trace.Process(r.Task), "calls", r.Verb)
		}
	}
}

func calls() {
	c := running(context.Background())
	defer c.Close()
	tell(c.Trace().Records())
}

// ## What is mounted
//
// The mount of the pod is a real one: ask the kernel. What is mounted is a loop device, a file that acts as a disk, and where
// is a path that every kubelet in the world uses: `pods/<UID of the pod>/volumes/kubernetes.io~csi/<volume>/mount`.
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
	fmt.Println("is a mount of", strings.TrimRight(what[0], "0123456789")+"…, on which is", what[1])

	check(c.WriteFile("default", "web", "data", "greeting", []byte("hello")))
	greeting, err := os.ReadFile(filepath.Join(path, "greeting"))
	check(err)
	fmt.Printf("the pod wrote a file, and this machine reads it: %s\n", greeting)
}

// ## A question
//
// Now the pod is deleted, and the claim is not. Which of the calls are undone, in which order, and which is not?
func answer() {
	ctx := context.Background()
	c := running(ctx)
	defer c.Close()
	before := c.Trace().Steps()
	check(c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
	check(c.WaitForRest(ctx))
	tell(c.Trace().Records()[before:])
	fmt.Println("DeleteVolume is not among them: the claim still wants its data.")
}

func main() {
	calls()
	mounted()
	answer()
}
