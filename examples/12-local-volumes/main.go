// # Lesson 12: the disk in the machine
//
// The volumes so far came from a storage system that every node can reach. Now the disk is in one
// machine: an SSD or, in this lesson, a **RAM disk**, which is a file system in memory. Such a disk is
// fast, and there is no driver, no attach and no network. But it stays where it is. The data cannot
// come to the pod, so the pod must go to the data.
//
// Kubernetes calls this a **local volume**. Nothing is created on demand: someone puts a disk into the
// machine first. So everything in this lesson is about finding the right disk, and about leaving
// it clean.
package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A disk and its volume
//
// First node-2 gets a RAM disk of 64 MiB, mounted at /mnt/disks/ram. Then an administrator describes
// it to Kubernetes. The volume says where the disk is: a path, and the **node affinity**, which is the
// list of nodes that can use it. The class has no provisioner, so a claim can only get a volume that
// exists. And it waits for the first consumer. You will see why.
const disk = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: local
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: ram
spec:
  storageClassName: local
  capacity:
    storage: 64Mi
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local:
    path: /mnt/disks/ram
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - key: kubernetes.io/hostname
          operator: In
          values: [node-2]
`

// The claim knows nothing about nodes. It names the class and a size.
const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 32Mi
`

var waiting = session.New("disk node-2 /mnt/disks/ram 64Mi", "apply "+disk, "apply "+claim, "rest")

// The volume is available, it fits, and yet the claim waits. If it took the volume now, it would
// decide where its pod must run, before anyone knows what else the pod needs.
func claimWaits() {
	s := waiting.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## The pod goes to the disk
//
// The pod names the claim, as always. Node-1 is just as empty as node-2, and its name comes first.
const web = `
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

var running = waiting.Then("apply "+web, "wait pod web Running", "settle")

// For each node, the scheduler looks for a volume that fits the claim and that this node can use.
// Node-1 has none, so it is out. On node-2 the smallest volume that fits is "ram". The scheduler
// writes the claim's name into the volume: now it is reserved. The PersistentVolume controller sees
// that and binds the two. Only then is the pod assigned to node-2.
func podFollows() {
	s := running.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## The same as a picture
//
// Compare it with lesson 3. There the scheduler wrote a node on the claim, and a driver created a disk
// there. Here it writes the claim into a volume, and nothing is created. (The driver in this picture
// is a part of the kubelet: its plugin for local volumes.)
func drawn() {
	s := waiting.MustPlay()
	defer s.Close()
	_, options := s.Scene()
	options.After = s.Log().Steps()
	s.Do("apply " + web)
	s.Do("wait pod web Running")
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## What the kubelet does
//
// Very little. It binds the directory of the disk to the directory of the pod: the same files, visible
// at a second path. There is no attachment object, and nothing to detach later. The first line is the
// disk itself.
func mounts() {
	s := running.MustPlay()
	defer s.Close()
	node, err := s.Cluster().Machine("node-2")
	if err != nil {
		panic(err)
	}
	all, err := node.FS.Mounts()
	if err != nil {
		panic(err)
	}
	for _, m := range all {
		fmt.Println(m.FSType, "at", m.Path)
	}
}

// warnings returns the events that say what is wrong.
func warnings(s *session.Session) []string {
	return slices.DeleteFunc(s.Events(), func(event string) bool { return !strings.Contains(event, "Warning") })
}

// ## The pod cannot leave
//
// The administrator empties node-2 for maintenance: the node takes no new pods, and the pod is deleted
// and created again. With the disks of lesson 5 it would now run on node-1. This one waits, until its
// node is back.
func stays() {
	s := running.Then("cordon node-2", "delete pod web", "wait pod web gone", "apply "+web, "rest").MustPlay()
	defer s.Close()
	for _, event := range warnings(s) {
		fmt.Println(event)
	}
	fmt.Print(s.StateTable())
}

// ## What a reboot does
//
// The pod writes a file, and the node is rebooted. The disk is mounted again at the same place, the
// kubelet binds it again, and the pod runs on. Kubernetes sees nothing unusual. But this disk was in
// memory. An SSD would have kept the file, and nothing in the API tells the two apart.
func reboot() {
	s := running.Then("write pod web data").MustPlay()
	defer s.Close()
	show := func(when string) {
		node, err := s.Cluster().Machine("node-2")
		if err != nil {
			panic(err)
		}
		names, err := node.FS.ReadDir(node.Path("/mnt/disks/ram"))
		if err != nil {
			panic(err)
		}
		fmt.Println("files", when, "the reboot:", len(names))
	}
	show("before")
	s.Do("reboot node-2")
	s.Do("rest")
	show("after")
	fmt.Print(s.StateTable())
}

// ## Hundreds of disks
//
// Nobody writes a manifest for each of them. Instead, each node runs a small program, the **local
// static provisioner**. It looks at a directory, here /mnt/fast, and creates a volume for each disk
// that it finds there. The name of the volume is a hash of the node, the class and the name of the
// disk, so that it never creates two for one disk. And it cleans up: when a volume is released, it
// removes the files and deletes the volume. Then it finds the disk again, as a new volume.
const fast = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: local
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`

var found = session.New("local-disks: local=/mnt/fast",
	"disk node-1 /mnt/fast/small 32Mi", "disk node-2 /mnt/fast/large 128Mi", "apply "+fast, "rest")

func discovered() {
	s := found.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## Used, cleaned, found again
//
// The pod gets the small disk, because its claim fits there. Afterwards the claim is deleted. Read how
// the volume ends, and begins again.
func cleaned() {
	s := found.Then("apply "+claim, "apply "+web, "write pod web data", "delete pod web", "wait pod web gone", "settle").MustPlay()
	defer s.Close()
	s.Do("delete claim data")
	s.Do("rest")
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A question
//
// A database wants two volumes: 32 MiB for its log and 64 MiB for its data. There are two disks, and
// each claim fits on one of them: 32 MiB in node-1, 128 MiB in node-2. Will the pod run?
const database = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: log
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 32Mi
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: tables
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 64Mi
---
apiVersion: v1
kind: Pod
metadata:
  name: db
spec:
  containers:
  - name: main
    image: pause
    volumeMounts:
    - name: log
      mountPath: /mnt/log
    - name: tables
      mountPath: /mnt/tables
  volumes:
  - name: log
    persistentVolumeClaim:
      claimName: log
  - name: tables
    persistentVolumeClaim:
      claimName: tables
`

func question() {
	s := found.Then("apply "+database, "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What happens", strings.Join(warnings(s), "\n"))
	notebook.Fold("The objects then", s.StateTable())
}

// <details><summary>Why?</summary>
//
// The pod does not run, although there is a disk for each claim. It can run on one node only, and each
// node has one disk. Because both claims wait, nothing has been reserved: add a second disk to either
// node that is large enough, and the pod starts. With immediate binding, each claim would have taken
// its volume at once, on two different nodes, and the pod could never run.
//
// </details>
func answer() {}

func main() {
	claimWaits()
	podFollows()
	drawn()
	mounts()
	stays()
	reboot()
	discovered()
	cleaned()
	question()
	answer()
}
