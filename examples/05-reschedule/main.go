// # Lesson 5: a pod moves
//
// A volume of mode ReadWriteOnce may be attached to one node at a time: two machines that write to one ext4 file system destroy
// it. So when a pod comes back on another node, its volume has to be given back by the first one before the second one gets
// it, and nobody may be wrong about who has it. Between the pods' wishes and the disk stand the attach/detach controller, the
// attacher, the kubelets and the driver, and each believes only what it can see.
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A pod runs on node-1
var first = session.New("create claim data 1Gi", "create pod web data on=node-1", "wait pod web Running", "rest")

func begin() {
	s := first.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## A second one wants the volume on node-2
//
// The attach/detach controller sees that the volume is attached elsewhere and used there. It tries nothing, and says so in an
// event. This is the best-known message of Kubernetes storage, **Multi-Attach error**: a wait, not a failure (though the event is
// named FailedAttachVolume).
var second = first.Then("create pod other data on=node-2", "rest")

func multiAttach() {
	s := second.MustPlay()
	defer s.Close()
	for _, event := range s.Events() {
		if strings.Contains(event, "Warning") {
			fmt.Println(event)
		}
	}
	fmt.Print(s.StateTable())
}

// ## The first one goes
//
// Read who waits for whom. The kubelet of node-1 unpublishes (takes the volume from the pod) and unstages (unmounts it
// from the node); then it says "no longer in use" in its Node object; then the controller no longer lists it as attached in that
// Node's status, so that no pod may begin to use it; then it deletes the VolumeAttachment; the attacher has the driver detach, and
// takes its finalizer off (a **finalizer** is a name on an object; a deleted object stays until all of them are taken off). Then
// everything happens in the other direction on node-2. vol-… is the driver's own name for the volume.
var moved = second.Then("delete pod web", "rest")

func handedOver() {
	s := moved.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## As a sequence
//
// The same, from where the first pod is deleted.
func drawn() {
	s := second.MustPlay()
	defer s.Close()
	_, before := s.Scene()
	before.After = s.Log().Steps()
	s.Do("delete pod web")
	s.Do("rest")
	notebook.Show(picture.Sequence(s.Log().Records(), before))
}

// ## A question
//
// "No longer in use" is said by the kubelet of node-1. What if the news of it does not reach the controller, because it does
// not hear of nodes for a while? Will the volume be torn away from node-1 under somebody's feet, or will node-2 wait?
func answer() {
	s := second.Then("hold attachdetach/cache nodes", "delete pod web", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("It waits until it hears. Were its news wrong the other way, nothing would be torn away either: it reads the node's")
	fmt.Println("status once more before it detaches. (And if the node can say nothing any more? Lesson 6.)")
}

func main() {
	begin()
	multiAttach()
	handedOver()
	drawn()
	answer()
}
