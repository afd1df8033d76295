// # Lesson 7: the kubelet restarts
//
// A kubelet can be killed at any moment, by an update or a crash. It loses its memory, while the
// pods keep running with their volumes mounted. When it starts again it must find out what exists.
// It has three sources, which may disagree: the API server, the disk of its node, and the mount
// table.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## Killed while the pod runs
//
// The kubelet starts, lists the pods of its node, and reads its disk. It calls the driver again for
// everything that should exist: it asks for NodeStageVolume and NodePublishVolume a second time,
// and the driver must answer "done". This is why CSI calls must be **idempotent**.
var running = session.New("create claim data 1Gi", "create pod web data on=node-1", "wait pod web Running", "rest")

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
func answer() {
	s := session.New("create claim data 1Gi", "create pod web data on=node-1", "wait claim data Bound",
		"fail driver-lost Unavailable NodeStageVolume", // the next call succeeds but returns an error
		"until NodeStageVolume", "crash kubelet(node-1)", "delete pod web now=true", "rest",
	).MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("No, there is a record. Before the call the kubelet created the directories, with a file (vol_data.json) that names the")
	fmt.Println("volume. From this file the next kubelet knows what to unstage.")
}

func main() {
	killed()
	reconstructed()
	rebooted()
	answer()
}
