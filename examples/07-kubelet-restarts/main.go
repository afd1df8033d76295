// # Lesson 7: the kubelet restarts
//
// A kubelet can be killed at any moment, by an update or a crash. It loses its memory, while the
// pods keep running with their volumes mounted. When it starts again it must find out what exists.
// It has three sources, which may disagree: the API server, the disk of its node, and the mount
// table.
package main

import (
	"fmt"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A pod on node-1
const manifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  nodeName: node-1
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

// ## Killed while the pod runs
//
// The kubelet starts, lists the pods of its node, and reads its disk. It calls the driver again for
// everything that should exist: it asks for NodeStageVolume and NodePublishVolume a second time,
// and the driver must answer "done". This is why CSI calls must be **idempotent**.
var running = session.New("apply "+manifest, "wait pod web Running", "rest")

func killed() {
	s := running.Then("crash kubelet(node-1)", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## Killed while the pod is deleted
//
// While the kubelet is down, the pod is force-deleted. When the kubelet starts again, the API no
// longer has this pod. Only the node's disk still has a trace of it: a directory with a mount. From
// these the kubelet **reconstructs** the volume, and unmounts it.
func reconstructed() {
	s := running.Then("stop kubelet(node-1)", "delete pod web now=true", "rest", "start kubelet(node-1)", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## Reconstruction as a picture
//
// The requests and calls since the kubelet was stopped. The pod is deleted while the kubelet is down.
// The calls are undone only after it has started again.
func drawn() {
	s := running.MustPlay()
	defer s.Close()
	_, options := s.Scene()
	options.After = s.Log().Steps()
	for _, op := range []string{"stop kubelet(node-1)", "delete pod web now=true", "rest", "start kubelet(node-1)", "rest"} {
		s.Do(op)
	}
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## The machine reboots
//
// A reboot also removes the mounts, but the directories remain. The pod starts again on the same
// node, and its volume is staged and published again. It is still attached, because the attachment
// does not depend on the node's memory.
func rebooted() {
	s := running.Then("reboot node-1", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A question
//
// The kubelet crashes between two calls: it has asked the driver to stage the volume, the driver
// has done so, and the response is lost. Meanwhile the pod is deleted. Does the mount remain
// forever, because nothing has recorded it?
func question() {
	s := session.New("apply "+manifest, "wait claim data Bound",
		"fail driver-lost Unavailable NodeStageVolume", // the next call succeeds but returns an error
		"until NodeStageVolume", "crash kubelet(node-1)", "delete pod web now=true", "rest",
	).MustPlay()
	defer s.Close()
	notebook.Fold("What happens", s.Last())
	notebook.Fold("Mounts of node-1 then", len(s.Cluster().DeviceState().Mounts("node-1")))
}

// <details><summary>Why?</summary>
//
// No, there is a record. Before the call the kubelet created the directories, with a file
// (vol_data.json) that names the volume. From this file the next kubelet knows what to unstage.
//
// </details>
func answer() {}

func main() {
	killed()
	reconstructed()
	drawn()
	rebooted()
	question()
	answer()
}
