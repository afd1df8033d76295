// # Lesson 8: what is on the disk
//
// A claim of 64 MiB is Bound, a pod runs. What is it that it has got? Two drivers, side by side: one makes a **file** for each
// volume and binds it to a loop device, the other one cuts **extents** out of a volume group of LVM, Linux's manager of disks. The
// pod cannot tell one from the other.
//
// Both are real here: it takes Linux, root, and lvm2.
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
// running makes a world of one node with a claim of a size and a pod that has it, on one of the two drivers. look has the pod
// write a file, and shows what lies below the world's directory then.
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
// The volume is one file, as long as the volume is large. But it is **sparse**: blocks that nobody has written are not there.
// So a disk can promise more than it has, and the day on which it is full comes for all volumes at once.
func file() {
	look(cluster.Loop, func(dir string) {
		images, err := filepath.Glob(filepath.Join(dir, "volumes", "*.img"))
		check(err)
		for _, image := range images {
			var info syscall.Stat_t
			check(syscall.Stat(image, &info))
			fmt.Printf("a file of %d MiB, of which less than a quarter is on the disk: %t\n", info.Size>>20, info.Blocks*512 < info.Size/4)
		}
	})
}

// ## Extents
//
// A volume group is a heap of extents, 4 MiB each, and a logical volume is a list of some of them: here of 16, from the first
// one on, of the disk pv0 (LVM's word is physical volume; it is no PersistentVolume). They are the volume's alone. A full volume hurts nobody else, and nothing can be promised that is not there.
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
// A claim asks for 65 MiB. How large is the volume that it gets: of the one driver, and of the other?
func answer() {
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		c, claim := running("", devices, "65Mi")
		fmt.Printf("%s: %s\n", devices, claim.Status.Capacity.Storage())
		check(c.Close())
	}
	fmt.Println("An extent is not divided. A claim's capacity is what the volume has, and may be more than what was asked for.")
}

func main() {
	file()
	extents()
	answer()
}
