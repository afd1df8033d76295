// # Lesson 8: what is on the disk
//
// A claim of 64 MiB is Bound, and a pod runs. What storage does it actually have? This lesson
// compares two drivers. One creates a **file** for each volume and attaches it to a loop device.
// The other allocates **extents** from a volume group of LVM, the logical volume manager of Linux.
// The pod cannot tell the difference.
//
// Both drivers are real, so this lesson requires Linux, root and lvm2.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/cluster"
)

// ## The same claim, the same pod
//
// running starts a world of one node with one of the two drivers, and creates a claim of a given
// size and a pod that uses it. look has the pod write a file, and shows what is in the world's
// directory.
func running(dir string, devices cluster.Devices, size string) (c *cluster.Cluster, claim *corev1.PersistentVolumeClaim) {
	klog.SetLogger(logr.Discard())
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: devices, Dir: dir})
	check(err)
	ctx, core := context.Background(), c.Client().CoreV1()
	check(c.Start(ctx))
	_, err = core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", size), metav1.CreateOptions{})
	check(err)
	_, err = core.Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{})
	check(err)
	check(c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	claim, err = core.PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
	check(err)
	return c, claim
}

func look(devices cluster.Devices, show func(dir string)) {
	dir, err := os.MkdirTemp("", "lesson-")
	check(err)
	defer os.RemoveAll(dir)
	c, claim := running(dir, devices, "64Mi")
	defer c.Close()
	check(c.WriteFile("default", "web", "data", "greeting", []byte("hello")))
	fmt.Printf("%s: claim %s, %s\n", devices, claim.Status.Phase, claim.Status.Capacity.Storage())
	show(dir)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// ## A file
//
// The volume is a single file of the volume's size. But the file is **sparse**: blocks that were
// never written take no space. So a disk can promise more than it has. When it is full, it is full
// for all volumes at once.
func file() {
	look(cluster.Loop, func(dir string) {
		images, err := filepath.Glob(filepath.Join(dir, "volumes", "*.img"))
		check(err)
		for _, image := range images {
			var info syscall.Stat_t
			check(syscall.Stat(image, &info))
			fmt.Printf("a file of %d MiB; less than a quarter of it is allocated: %t\n", info.Size>>20, info.Blocks*512 < info.Size/4)
		}
	})
}

// ## Extents
//
// A volume group is a set of extents of 4 MiB each. A logical volume is a list of extents: here 16
// of them, from the first one on, on the disk pv0. (LVM calls a disk a physical volume. It is not a
// PersistentVolume.) The extents belong to this volume only. A full volume does not affect others,
// and nothing is promised that does not exist.
func extents() {
	look(cluster.LVM, func(dir string) {
		lvs := exec.Command("lvm", "lvs", "--noheadings", "--nosuffix", "--units", "m", "-o", "lv_size,vg_extent_size,seg_pe_ranges")
		lvs.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+filepath.Join(dir, "lvm-node-1"), "LVM_SUPPRESS_FD_WARNINGS=1")
		row, err := lvs.Output()
		check(err)
		columns := strings.Fields(string(row))
		_, ranges, _ := strings.Cut(columns[2], ":")
		fmt.Printf("a logical volume of %s MiB; an extent is %s MiB; its extents are %s of the disk %s\n",
			columns[0], columns[1], ranges, filepath.Base(strings.TrimSuffix(columns[2], ":"+ranges)))
	})
}

// ## A question
//
// A claim asks for 65 MiB. How large is its volume with each driver?
func answer() {
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		c, claim := running("", devices, "65Mi")
		fmt.Printf("%s: %s\n", devices, claim.Status.Capacity.Storage())
		check(c.Close())
	}
	fmt.Println("An extent cannot be divided. A claim's capacity is the size of its volume, which may exceed the request.")
}

func main() {
	file()
	extents()
	answer()
}
