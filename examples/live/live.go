package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
)

// timeout limits the start of a cluster and each act.
const timeout = 2 * time.Minute

// A Cluster is a live cluster of one node.
type Cluster struct {
	*cluster.Cluster
	dir string // contains its volumes and its node
}

// Start starts a cluster whose volumes are on devices of this machine. The caller must close it.
func Start(devices cluster.Devices) *Cluster {
	klog.SetLogger(logr.Discard()) // the mount library logs each call
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: devices})
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		panic(errors.Join(err, c.Close()))
	}
	node, err := c.KubeletDir("node-1")
	check(err)
	return &Cluster{c, filepath.Dir(node)}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Close removes the cluster with its devices and files.
func (c *Cluster) Close() { check(c.Cluster.Close()) }

// Do performs acts of package scenario, and waits after the last one until the control plane has
// nothing left to do.
func (c *Cluster) Do(acts ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, text := range acts {
		act, err := scenario.ParseAct(text)
		check(err)
		check(act.Do(ctx, c.Cluster, nil))
	}
	check(c.WaitForRest(ctx))
}

// Mount returns the directory where a volume of a pod is mounted.
func (c *Cluster) Mount(pod, volume string) string {
	path, err := c.MountPath("default", pod, volume)
	check(err)
	return path
}

// Shell prints a command and its output; see Output.
func (c *Cluster) Shell(command string) {
	fmt.Println("$", c.hideNames(command))
	fmt.Print(c.Output(command))
}

// Output runs a shell command in the directory of the cluster and returns its output. What differs
// between runs is replaced: the directory by ".", UIDs by <uid>, hashes by <hash>, numbers of loop
// devices by N. LVM's commands act on the node's volume group.
func (c *Cluster) Output(command string) string {
	shell := exec.Command("/bin/sh", "-c", command)
	shell.Dir = c.dir
	shell.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+filepath.Join(c.dir, "lvm-node-1"), "LVM_SUPPRESS_FD_WARNINGS=1")
	out, err := shell.CombinedOutput()
	if err != nil {
		panic(fmt.Errorf("%s: %w\n%s", command, err, out))
	}
	return c.hideNames(string(out))
}

// Capacity returns the capacity of a claim.
func (c *Cluster) Capacity(claim string) string {
	found, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(context.Background(), claim, metav1.GetOptions{})
	check(err)
	return found.Status.Capacity.Storage().String()
}

var (
	uids    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	hashes  = regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{16})\b`)
	devices = regexp.MustCompile(`/dev/loop\d+`)
)

func (c *Cluster) hideNames(text string) string {
	text = strings.ReplaceAll(text, c.dir, ".")
	text = hashes.ReplaceAllString(uids.ReplaceAllString(text, "<uid>"), "<hash>")
	return devices.ReplaceAllString(text, "/dev/loopN")
}
