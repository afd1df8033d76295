// # Lesson 3: who chooses the place
//
// A disk is somewhere: in a zone, in a rack, in one machine. If it is made as soon as somebody asks, it may be made where the
// pod cannot run. So a **storage class** can say `volumeBindingMode: WaitForFirstConsumer`: wait until there is a pod, let the
// scheduler choose its node, and make the disk there.
//
// Who makes it? A **driver** is the program that knows the storage. Kubernetes speaks to it in **CSI**, the Container Storage
// Interface; the one here is called array.csi.volsim.dev. Helpers beside it, the **provisioner** and the **attacher**, watch the API
// server and call it. What is made on demand is called pvc- and the claim's UID, though it is a volume.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## A claim that waits
//
// The class "patient" waits. Its claim stays Pending although all parts of the cluster are at work, and that is no fault: the
// controller says so in an event, which `kubectl describe` would show.
var waiting = session.New(
	"create class patient binding=WaitForFirstConsumer",
	"create claim data 1Gi class=patient",
	"rest",
)

func pending() {
	s := waiting.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	for _, event := range s.Events() {
		fmt.Println(event)
	}
}

// ## A pod comes
//
// Follow the chain: the **scheduler** picks a node and writes its name on the claim; the PersistentVolume controller sees
// that and asks the provisioner; that has the driver make a disk, and creates the volume for it; the controller binds; and only
// then is the pod placed (next cell). Three programs and a driver: each program acts on what the one before wrote to the API
// server, and only the driver is called directly.
var placed = waiting.Then("create pod web data", "wait claim data Bound")

func chain() {
	s := placed.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## And runs
//
// Being Bound is not yet being there: the rest of the way, attach and mount, is lesson 4.
var running = placed.Then("wait pod web Running")

func there() {
	s := running.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## Immediate binding
//
// With the cluster's default class the disk is made at once, before anybody knows where it will be used.
func immediate() {
	s := session.New("create claim data 1Gi", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## A question
//
// The driver makes the disk, but its answer is lost: the provisioner sees only an error, and there is no volume in the API yet. It
// tries again. Will there be two disks?
func answer() {
	s := session.New("create claim data 1Gi", "fail driver-lost Unavailable CreateVolume", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("One disk: CreateVolume is asked again for the same name, which is made from the claim's UID, and the driver has it already.")
}

func main() {
	pending()
	chain()
	there()
	immediate()
	answer()
}
