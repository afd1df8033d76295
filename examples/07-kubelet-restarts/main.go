// # Lesson 7: the kubelet restarts
//
// A kubelet may be killed at any moment: an update, a crash. Its memory is gone, and the pods run on, with their volumes
// mounted. When it comes back it has to find out what is there, from three sources that need not agree: the API server, the
// disk of its node, and the mount table.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## Killed while the pod runs
//
// The kubelet starts again, lists the pods of its node, and looks at its disk. It calls the driver again for what should be
// there: NodeStageVolume and NodePublishVolume are asked a second time for the same thing, and the driver has to answer
// "done". This is why CSI calls must be **idempotent**.
var running = session.New("create claim data 1Gi", "create pod web data on=node-1", "wait pod web Running", "rest")

func killed() {
	s := running.Then("crash kubelet(node-1)", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## Killed while the pod goes
//
// While it is down, the pod is deleted by force. When the kubelet comes back the API knows of no such pod. Only the disk of the
// node still does: a directory, and a mount in it. From these the kubelet **reconstructs** the volume, and unmounts it.
func reconstructed() {
	s := running.Then("stop kubelet(node-1)", "delete pod web now=true", "rest", "start kubelet(node-1)", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## The machine reboots
//
// A reboot takes the mounts away as well; directories stay. The pod comes back on the same node, and its volume is staged and
// published anew. Attached it is still: the attachment is not the node's to forget.
func rebooted() {
	s := running.Then("reboot node-1", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A question
//
// The kubelet dies between two calls: it has asked the driver to stage the volume, the driver has done so, and the answer is
// lost. In the meantime the pod is deleted. Does the mount stay for ever, since nobody has noted that it was made?
func answer() {
	s := session.New("create claim data 1Gi", "create pod web data on=node-1", "wait claim data Bound",
		"fail driver-lost Unavailable NodeStageVolume", // its next call is done, and answered with an error
		"until NodeStageVolume", "crash kubelet(node-1)", "delete pod web now=true", "rest",
	).MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("No: it was noted. Before the call the kubelet made the directories, with a file (vol_data.json) that says which volume")
	fmt.Println("they are for. From these the next kubelet knows what to unstage.")
}

func main() {
	killed()
	reconstructed()
	rebooted()
	answer()
}
