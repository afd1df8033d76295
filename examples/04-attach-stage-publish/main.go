// # Lesson 4: from a bound claim to a directory
//
// A claim is Bound. A pod uses it. What must happen to the volume before a container of the pod can
// write a file to it?
//
// Bound only means that claim and volume belong together. The disk exists somewhere in the storage,
// and no machine sees it yet. Three calls of the CSI driver lie between the disk and a directory in
// the container: attach, stage, publish. (Some drivers need no attach, or no stage.) You will see each
// of them, first in a simulated world and then on a real disk.
//
// The second part uses a real loop device. It requires Linux and root.
package main

import (
	"fmt"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/live"
	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A claim and a pod
//
// The pod mounts the volume of the claim at `/mnt/data`.
const manifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 64Mi
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: pause
    volumeMounts:
    - name: data
      mountPath: /mnt/data
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
`

// ## Bound
//
// We stop the world as soon as the claim is Bound. The node has no mounts yet.
var bound = session.New("nodes: 1", "apply "+manifest, "wait claim data Bound")

// look prints the end of a session, and what its node has mounted.
func look(s *session.Session) {
	fmt.Print(s.Last())
	mounts := s.Cluster().DeviceState().Mounts("node-1")
	fmt.Println("node-1 has", len(mounts), "mounts")
	for _, m := range mounts {
		fmt.Println("  ", trace.Abbreviate(m.Path))
	}
}

func isBound() {
	s := bound.MustPlay()
	defer s.Close()
	look(s)
}

// ## Attach
//
// The scheduler chooses a node for the pod. The attach/detach controller sees the pod and the node,
// and asks for the volume to be attached there, in an object: a VolumeAttachment. The **attacher**
// sees that object, and calls the driver: `ControllerPublishVolume`. Now the machine sees a disk.
// There is still no mount.
var attached = bound.Then("until ControllerPublishVolume")

func attach() {
	s := attached.MustPlay()
	defer s.Close()
	look(s)
}

// ## Stage
//
// From here on the **kubelet** acts, on the node itself. It waits until the node's status lists the
// volume as attached. Then it calls `NodeStageVolume`: the driver formats the disk if it is empty,
// and mounts it in a directory that belongs to the node, not to the pod. This happens once per node.
var staged = attached.Then("until NodeStageVolume")

func stage() {
	s := staged.MustPlay()
	defer s.Close()
	look(s)
}

// ## Publish
//
// `NodePublishVolume` makes the mount visible in a second directory, which belongs to the pod. This
// happens once per pod. The container gets this directory as `/mnt/data`. Why two directories? So
// that two pods on one node can share one mounted disk.
var published = staged.Then("until NodePublishVolume")

func publish() {
	s := published.MustPlay()
	defer s.Close()
	look(s)
}

// ## All states
//
// The whole way as a picture. Each row is an object, or the volume on the node. The numbers are the
// order in which things happened. Compare the last row with the three calls.
func states() {
	s := published.Then("rest").MustPlay()
	defer s.Close()
	notebook.Show(picture.States(s.Scene()))
}

// ## The same on a real disk
//
// This cluster runs by itself, and its driver is real: each volume is a file that a loop device turns
// into a disk. We apply the same manifest, and ask the kernel what is mounted. There are two mounts
// of one disk: `globalmount` from stage, `mount` from publish.
func realDisk() {
	c := live.Start(cluster.Loop)
	defer c.Close()
	c.Do("apply "+manifest, "wait pod web Running")
	c.Shell("grep $PWD /proc/mounts | cut -d ' ' -f 1-3")
}

// ## One disk, two directories
//
// A file that the pod writes in its directory is also in the node's directory.
func oneDisk() {
	c := live.Start(cluster.Loop)
	defer c.Close()
	c.Do("apply "+manifest, "wait pod web Running")
	c.Shell("echo hello > " + c.Mount("web", "data") + "/greeting")
	c.Shell("cat node-1/plugins/kubernetes.io/csi/*/*/globalmount/greeting")
}

// ## A question
//
// Now we delete the pod, but not the claim. Which of the calls are undone, and in which order? Which
// call is not undone?
func question() {
	s := published.Then("rest").MustPlay()
	defer s.Close()
	s.Do("delete pod web")
	s.Do("rest")
	notebook.Fold("What happens", s.Last())
	notebook.Fold("What remains", s.StateTable())
}

// <details><summary>Why?</summary>
//
// The calls are undone in the opposite order: unpublish, unstage, detach. A disk must not be detached
// from a machine that still has it mounted, because unwritten data would be lost. The creation of the
// volume is not undone: the claim still exists, and so does its data. The next pod with this claim
// finds it.
//
// </details>
func answer() {}

func main() {
	isBound()
	attach()
	stage()
	publish()
	states()
	realDisk()
	oneDisk()
	question()
	answer()
}
